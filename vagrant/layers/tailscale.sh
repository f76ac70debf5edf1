# Tailscale, its relay and the control server of its tests (tailscale.go): a Go module that Debian does not package.
# Pinned: all versions in tailscale.mod, with the checksums of tailscale.sum. It wants a newer Go than Debian 13 has:
# that, too, comes as a module (https://go.dev/doc/toolchain).
apt-get -q update
apt-get -qy install --no-install-recommends golang-go
mkdir /tmp/tailscale
cd /tmp/tailscale
cp /recipe/tailscale.go main.go
cp /recipe/tailscale.mod go.mod
cp /recipe/tailscale.sum go.sum
# No ca-certificates: the view has those that the building machine trusts. Linked statically and without its paths, so
# that it runs on any Debian and comes out the same anywhere.
export GOTOOLCHAIN=go1.26.6 CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath"
commands=tailscale.com/cmd version=tailscale.com/version
said="-X $version.shortStamp=1.98.10 -X $version.longStamp=1.98.10" # as its own build scripts do it
mkdir bin
go build -v -ldflags "-s -w $said" -o bin/ $commands/tailscaled $commands/tailscale $commands/derper
go build -ldflags "-s -w" -o bin/testcontrol .
for file in bin/*; do install -D "$file" "$1/usr/$file"; done
