# boringtun-cli, Cloudflare's WireGuard in userspace: a Rust crate that Debian does not package.
# Pinned: the version here (0.7 wants a newer Rust than Debian 13 has), and all that it needs in its own Cargo.lock.
apt-get -q update
apt-get -qy install --no-install-recommends cargo libc6-dev
# The certificates that the building machine trusts; and linked statically, so that it runs on any Debian.
export CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt RUSTFLAGS="-C target-feature=+crt-static"
# --target, so that the flags do not reach the macros, which the compiler loads.
cargo install boringtun-cli --version 0.6.0 --locked --root /tmp/boringtun --target "$(rustc -vV | sed -n 's/^host: //p')"
install -D /tmp/boringtun/bin/boringtun-cli "$1/usr/bin/boringtun-cli"
