# A gateway of MASQUE's CONNECT-IP (masque.go) with the Go module connect-ip-go, which no Debian packages. It wants a
# newer Go than Debian 13 has, that of its backports.
# Pinned: all versions in masque.mod, with the checksums of masque.sum.
. /etc/os-release
sed -n "s/ $VERSION_CODENAME / $VERSION_CODENAME-backports /p" /etc/apt/sources.list > /etc/apt/sources.list.d/backports.list
apt-get -q update
apt-get -qy install --no-install-recommends -t "$VERSION_CODENAME-backports" golang-go
mkdir /tmp/masque
cd /tmp/masque
cp /recipe/masque.go main.go
cp /recipe/masque.mod go.mod
cp /recipe/masque.sum go.sum
export GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath"
mkdir -p "$1/usr/bin"
go build -v -ldflags "-s -w" -o "$1/usr/bin/masque" .
