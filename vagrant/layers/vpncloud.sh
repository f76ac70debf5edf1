# VpnCloud: a Rust crate that Debian does not package.
# Pinned: the version here, and all that it needs in its own Cargo.lock.
apt-get -q update
apt-get -qy install --no-install-recommends cargo libc6-dev
# The certificates that the building machine trusts.
export CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt
cargo install vpncloud --version 2.3.0 --locked --root /tmp/vpncloud
install -D /tmp/vpncloud/bin/vpncloud "$1/usr/bin/vpncloud"
