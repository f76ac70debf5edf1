#!/usr/bin/env bash
# A libvirtd of its own, and in its company a command: tests/vagrant/enclosure.sh COMMAND…
#
# Network, mount and PID namespaces of their own; /run, libvirt's folders, Vagrant's home and its state on a tmpfs.
# The host's libvirt, bridges, firewall and boxes are not touched, and kill -9 of this process leaves nothing: the
# kernel ends libvirtd, dnsmasq, every qemu and every mount with the namespaces' first process.
set -euo pipefail
if [ "${ENCLOSED:-}" != yes ]; then
    ENCLOSED=yes exec setpriv --pdeathsig KILL \
        unshare --net --mount --pid --ipc --uts --fork --kill-child --mount-proc "$0" "$@"
fi

mount -t tmpfs -o mode=755 tmpfs /run
mount -t sysfs sysfs /sys # of this network namespace; and without cgroups, which are the host's
mkdir -p /run/lock /run/private/{lib,cache,log,home}
cp -a /etc/libvirt /run/private/etc
# as root, and without AppArmor profiles: those would be loaded into the host's kernel
printf '%s\n' 'user = "root"' 'group = "root"' 'security_driver = "none"' 'cgroup_controllers = []' 'namespaces = []' \
    >/run/private/etc/qemu.conf
rm -rf /run/private/etc/qemu/networks /run/private/etc/qemu/autostart
mount --bind /run/private/etc /etc/libvirt
mount --bind /run/private/lib /var/lib/libvirt
mount --bind /run/private/cache /var/cache/libvirt
mount --bind /run/private/log /var/log/libvirt
mkdir -p /var/lib/libvirt/{images,dnsmasq,qemu}
ip link set lo up

export HOME=/run/private/home VAGRANT_HOME=/run/private/vagrant.d VAGRANT_DOTFILE_PATH=/run/private/state
export VAGRANT_CHECKPOINT_DISABLE=1 VAGRANT_DEFAULT_PROVIDER=libvirt LIBVIRT_DEFAULT_URI=qemu:///system
for daemon in virtlogd libvirtd; do
    "$daemon" </dev/null >>"/var/log/libvirt/$daemon.out" 2>&1 &
done
for _ in $(seq 100); do
    virsh version >/dev/null 2>&1 && break
    sleep 0.1
done
virsh version >/dev/null || { cat /var/log/libvirt/*.out >&2; exit 3; }
"$@" # not exec: this shell stays the first process and reaps
