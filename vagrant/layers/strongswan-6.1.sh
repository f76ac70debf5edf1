# strongSwan 6.1, in Debian the first with ML-KEM: the packages of sid, from the mirror that the image has, and sid's
# libc6, which they need. Pinned: the version here. apt checks sid's signature, and not its date: a mirror that lags
# behind has this version all the same.
. /etc/os-release
sed -n "s/^deb \(.*\) $VERSION_CODENAME /deb [check-valid-until=no] \1 sid /p" /etc/apt/sources.list > /etc/apt/sources.list.d/sid.list
apt-get -q update
cd /tmp
strongswan=$(dpkg-query -W -f '${Package} ${source:Package}\n' | sed -n 's/ strongswan$/=6.1.0-*/p')
packages=$(apt-get -s install --no-install-recommends -t sid $strongswan | sed -n 's/^Inst \(\S*\).* (\(\S*\) .*/\1=\2/p')
apt-get -q download $packages
for package in *.deb; do dpkg -x "$package" "$1"; done
