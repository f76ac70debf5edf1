# Rosenpass, the post-quantum key exchange for WireGuard: a Rust crate that Debian does not package.
# Pinned: the version here (0.2.3 wants Rust 1.88, Debian 13 has 1.85), and all that it needs in its own Cargo.lock.
# liboqs comes with the crate oqs-sys: cmake and a C compiler build it, bindgen needs libclang.
apt-get -q update
apt-get -qy install --no-install-recommends cargo cmake clang g++ libclang-dev libsodium-dev make pkg-config
# The certificates that the building machine trusts.
export CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt
cargo install rosenpass --version 0.2.2 --locked --root /tmp/rosenpass
install -D /tmp/rosenpass/bin/rosenpass "$1/usr/bin/rosenpass"
# What the gateway need not have. In /usr, because a folder /lib would take the place of the link to /usr/lib.
sodium=$(ldd /tmp/rosenpass/bin/rosenpass | sed -n 's/.*=> \(\S*\/libsodium\S*\) .*/\1/p')
install -D -m 644 "$sodium" "$1/usr/lib/$(uname -m)-linux-gnu/${sodium##*/}"
