# Yggdrasil, Debian's package. It is no package of the image, because its installation makes a key and starts a daemon.
apt-get -q update
cd /tmp
apt-get -q download yggdrasil
dpkg -x yggdrasil_*.deb "$1"
