# wireguard-go of 2026, the package of Debian sid, from the mirror that the image has. Pinned: the version here. apt
# checks sid's signature, and not its date: a mirror that lags behind has this version all the same.
. /etc/os-release
sed -n "s/^deb \(.*\) $VERSION_CODENAME /deb [check-valid-until=no] \1 sid /p" /etc/apt/sources.list > /etc/apt/sources.list.d/sid.list
apt-get -q update
cd /tmp
apt-get -q download wireguard-go=0.0.20260522-1
dpkg -x wireguard-go_*.deb "$1"
