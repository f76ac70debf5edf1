# OpenVPN 2.7, the package of Debian's backports, from the mirror that the image has: apt checks the signature.
# Pinned: the version here, for Debian 13, whose OpenVPN 2.6 needs the same libraries.
. /etc/os-release
sed -n "s/ $VERSION_CODENAME / $VERSION_CODENAME-backports /p" /etc/apt/sources.list > /etc/apt/sources.list.d/backports.list
apt-get -q update
cd /tmp
apt-get -q download openvpn=2.7.8-1~bpo13+1
dpkg -x openvpn_*.deb "$1"
