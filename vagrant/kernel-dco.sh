#!/usr/bin/env bash
# Build OpenVPN's data-channel offload (Debian: openvpn-dco-dkms) for the kernel of `--kernel qemu:trixie`.
# As root, once, after that kernel has been fetched. It is built in a copy-on-write view of the lab image, in which
# compiler and headers are installed, and which is gone afterwards; the module goes beside the kernel's own.
set -euo pipefail
cache=${VPNEVAL_CACHE:-/var/cache/vpneval}
kernel=$cache/kernels/trixie
[ -d "$kernel/lib/modules" ] || { echo "no kernel in $kernel; fetch it: vpneval doctor --kernel qemu:trixie" >&2; exit 3; }
image=$(ls -td "$cache"/images/trixie-*.json | head -n 1)
version=$(ls "$kernel/lib/modules")
export image=${image%.json} kernel version
exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
    mount -t tmpfs tmpfs /mnt
    cd /mnt
    mkdir upper work root
    mount -t overlay -o "lowerdir=$image,upperdir=upper,workdir=work" overlay root
    mount -t proc proc root/proc
    mount --rbind /dev root/dev
    cp /etc/resolv.conf root/etc/
    inside="env DEBIAN_FRONTEND=noninteractive chroot root"
    $inside apt-get -q update
    $inside apt-get -qy install --no-install-recommends gcc libc6-dev make "linux-headers-$version"
    $inside sh -c "cd /tmp && apt-get -q download openvpn-dco-dkms && dpkg -x openvpn-dco-dkms_*.deb /"
    source=$(basename root/usr/src/ovpn-dco-*)
    $inside make -C "/usr/src/$source" KERNEL_SRC="/lib/modules/$version/build" REVISION="${source#ovpn-dco-}"
    install -D -m 644 "root/usr/src/$source/drivers/net/ovpn-dco/ovpn-dco-v2.ko" \
        "$kernel/lib/modules/$version/updates/ovpn-dco-v2.ko"
    depmod -b "$kernel" "$version"
'
