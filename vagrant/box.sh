#!/usr/bin/env bash
# The offline Vagrant box: the lab image, a kernel, systemd, sshd and the user vagrant. Called by `make box`, as root.
#
#     vagrant/box.sh IMAGE_ROOT OUT_DIR      writes OUT_DIR/catalogue.json and OUT_DIR/VERSION.box
#
# Does nothing where OUT_DIR has a box made from this image by this script. The image itself is never changed.
set -euo pipefail
image=$(realpath "$1") out=$2 here=$(dirname "$(realpath "$0")")
recipe="$(basename "$image") $(cat "$here/box.sh" "$here/guest.sh" "$here/vagrant.pub" | sha256sum | cut -c1-12)"

if grep -qsF "$recipe" "$out/catalogue.json"; then
    echo "the box is there, and as the image is: $out"
    exit
fi
[ "$(id -u)" = 0 ] || { echo "building the box needs root: sudo make box" >&2; exit 3; }
[ "$(dpkg --print-architecture)" = amd64 ] || {
    echo "the local box is for amd64 only, as its boot loader extlinux is: name a public box in vagrant/lab.yml" >&2
    exit 3
}
declare -A packages=([mkfs.ext4]=e2fsprogs [qemu-img]=qemu-utils)
for tool in "${!packages[@]}"; do
    command -v "$tool" >/dev/null || { echo "$tool is missing; apt-get install ${packages[$tool]}" >&2; exit 3; }
done
# In mount and PID namespaces of its own, so that no mount, loop device or process outlives it, however it ends.
if [ "${BOX_UNSHARED:-}" != yes ]; then
    BOX_UNSHARED=yes exec setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --mount-proc "$0" "$image" "$out"
fi

mkdir -p "$out/.work"
out=$(realpath "$out") work=$(realpath "$out")/.work
exec 9>"$out/.lock"
flock 9
rm -rf "${work:?}"/*
version=$(date -u +%Y%m%d.%H%M%S)

# 1. a copy of the image, and in it what a virtual machine needs beside
cp -a --reflink=auto "$image" "$work/root"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
cp "$here/vagrant.pub" "$here/guest.sh" "$work/root/tmp/"
env -i PATH=/usr/sbin:/usr/bin LC_ALL=C chroot "$work/root" bash /tmp/guest.sh >"$out/box.log" 2>&1 ||
    { tail -n 15 "$out/box.log" >&2; echo "the guest cannot be set up; whole log: $out/box.log" >&2; exit 1; }
umount -l "$work/root/dev" "$work/root/proc"

# 2. a disk without partitions, with a boot loader in front of its file system
mkfs.ext4 -q -d "$work/root" -O ^64bit,^has_journal -E root_owner=0:0 -L vpneval "$work/disk.raw" 2G
mkdir "$work/disk"
mount -o loop "$work/disk.raw" "$work/disk"
mount -t proc proc "$work/disk/proc"
mount --rbind /dev "$work/disk/dev"
chroot "$work/disk" extlinux --install /boot >>"$out/box.log" 2>&1
umount -l "$work/disk/dev" "$work/disk/proc"
umount "$work/disk"

# 3. the box: vagrant-libvirt's format, and a catalogue, so that Vagrant takes a new version by itself
qemu-img convert -O qcow2 -c -o compression_type=zstd "$work/disk.raw" "$work/box.img"
echo '{"provider": "libvirt", "format": "qcow2", "virtual_size": 2}' >"$work/metadata.json"
echo 'Vagrant.configure("2") { |config| config.vm.provider(:libvirt) { |libvirt| libvirt.disk_bus = "virtio" } }' \
    >"$work/Vagrantfile"
tar -C "$work" -cf "$work/$version.box" metadata.json Vagrantfile box.img
rm -f "$out"/*.box
mv "$work/$version.box" "$out/"
cat >"$work/catalogue.json" <<END
{"name": "vpneval/trixie", "description": "$recipe",
 "versions": [{"version": "$version", "providers": [{"name": "libvirt", "url": "file://$out/$version.box"}]}]}
END
mv "$work/catalogue.json" "$out/"
rm -rf "$work"
echo "box built in $SECONDS s: $out/$version.box ($(du -h "$out/$version.box" | cut -f1))"
