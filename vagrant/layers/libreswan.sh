# Libreswan, which Debian does not let stand beside strongSwan: its files and those of the libraries that the image
# lacks, without their packages.
apt-get -q update
cd /tmp
packages=$(apt-get -s install --no-install-recommends libreswan | sed -n 's/^Inst \(\S*\).*/\1/p')
apt-get -q download $packages
for package in *.deb; do dpkg -x "$package" "$1"; done
