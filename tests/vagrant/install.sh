#!/usr/bin/env bash
# What `make test-vagrant` needs on this machine, from Debian's packages. No service is started: policy-rc.d forbids it
# while they are set up, and the tests start daemons of their own. Does nothing where all is there.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
packages="dnsmasq-base e2fsprogs libvirt-clients libvirt-daemon-system openssh-client qemu-system-x86 qemu-utils vagrant
    vagrant-libvirt"
missing=
for tool in dnsmasq libvirtd mkfs.ext4 qemu-img qemu-system-x86_64 ssh vagrant virsh; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0
echo "missing:$missing; installing:" $packages
if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    trap 'rm /usr/sbin/policy-rc.d' EXIT
fi
apt-get -q update
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends $packages
