# Nebula 1.10, the first with certificates of version 2: a Go module, because no Debian has it. It wants a newer Go than
# Debian 13 has, that of its backports.
# Pinned: the version here, and all that it needs in its own go.mod; go compares them with the checksum database.
. /etc/os-release
sed -n "s/ $VERSION_CODENAME / $VERSION_CODENAME-backports /p" /etc/apt/sources.list > /etc/apt/sources.list.d/backports.list
apt-get -q update
apt-get -qy install --no-install-recommends -t "$VERSION_CODENAME-backports" golang-go
export GOPATH=/tmp/go GOCACHE=/tmp/cache GOBIN="$1/usr/bin" GOTOOLCHAIN=local CGO_ENABLED=0
go install -trimpath github.com/slackhq/nebula/cmd/nebula@v1.10.3 github.com/slackhq/nebula/cmd/nebula-cert@v1.10.3
