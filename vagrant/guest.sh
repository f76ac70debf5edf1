#!/usr/bin/env bash
# Inside the image, in a chroot: make it a virtual machine that Vagrant can log in to. Called by box.sh.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

# The kernel with the drivers that the virtual machine has; all of its network code.
cat >/etc/dpkg/dpkg.cfg.d/vpneval <<'END'
path-exclude=/usr/lib/modules/*/kernel/sound/*
path-exclude=/usr/lib/modules/*/kernel/drivers/gpu/*
path-exclude=/usr/lib/modules/*/kernel/drivers/media/*
path-exclude=/usr/lib/modules/*/kernel/drivers/net/ethernet/*
path-exclude=/usr/lib/modules/*/kernel/drivers/net/wireless/*
path-exclude=/usr/lib/modules/*/kernel/drivers/usb/*
path-exclude=/usr/lib/modules/*/kernel/drivers/input/*
path-exclude=/usr/lib/modules/*/kernel/drivers/cpufreq/*
path-exclude=/usr/lib/modules/*/kernel/drivers/i2c/*
path-exclude=/usr/lib/modules/*/kernel/drivers/ata/*
path-exclude=/usr/lib/modules/*/kernel/drivers/infiniband/*
path-exclude=/usr/lib/modules/*/kernel/arch/x86/kvm/*
END
apt-get -q update
INITRD=No apt-get -qy install --no-install-recommends \
    busybox-static dbus extlinux linux-image-amd64 sudo systemd-sysv udev xz-utils
apt-get clean
rm -rf /var/lib/apt/lists/*

# Boot: one kernel and, instead of initramfs-tools' udev, the modules that the disk, the network cards and /dev/net/tun
# need. No predictable interface names, so that the rule below can name the first one.
mv /boot/vmlinuz-* /boot/vmlinuz
version=$(basename /usr/lib/modules/*)
initrd=$(mktemp -d)
mkdir "$initrd"/{dev,root,modules}
cp /usr/bin/busybox "$initrd/"
modprobe --set-version "$version" --all --show-depends virtio_pci virtio_blk ext4 virtio_net tun | awk '$1 == "insmod" {print $2}' |
    while read -r module; do
        name=$(basename "$module" .xz)
        [ -e "$initrd/modules/$name" ] || echo "/busybox insmod /modules/$name"
        xzcat "$module" >"$initrd/modules/$name"
    done >"$initrd/insmod"
cat >"$initrd/init" <<END
#!/busybox sh
/busybox mount -t devtmpfs dev /dev
$(cat "$initrd/insmod")
until [ -b /dev/vda ]; do /busybox sleep 0.1; done
/busybox mount -t ext4 -o noatime /dev/vda /root
exec /busybox switch_root /root /sbin/init
END
chmod +x "$initrd/init"
(cd "$initrd" && find . | cpio --quiet -o -H newc | gzip >/boot/initrd.img)
rm -r "$initrd"
cat >/boot/extlinux.conf <<'END'
DEFAULT linux
LABEL linux
  LINUX /boot/vmlinuz
  INITRD /boot/initrd.img
  APPEND root=/dev/vda rw quiet net.ifnames=0 console=ttyS0
END

# Network: Vagrant's own interface is mgmt0, by DHCP. All others belong to the lab and are left alone.
cat >/etc/systemd/network/10-mgmt0.link <<'END'
[Match]
OriginalName=eth0
[Link]
Name=mgmt0
END
cat >/etc/systemd/network/10-mgmt0.network <<'END'
[Match]
Name=mgmt0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
[DHCPv4]
ClientIdentifier=mac
UseHostname=no
END
mkdir -p /etc/systemd/networkd.conf.d
cat >/etc/systemd/networkd.conf.d/vpneval.conf <<'END'
[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
END
echo 'nameserver 192.168.121.1' >/etc/resolv.conf
echo '127.0.0.1 localhost host1 gw1 wan gw2 host2' >/etc/hosts # each is its own; between them there are only addresses
rm -f /etc/hostname # it comes from the Vagrantfile

# Services: none but udev, the network and sshd. What the packages enabled for themselves would disturb a measurement,
# and each unit costs a second of an emulated processor at boot.
rm -rf /etc/systemd/system/*.wants
systemctl enable systemd-networkd.service ssh.service
units=(
    {apt-daily,apt-daily-upgrade,dpkg-db-backup,e2scrub_all,fstrim,logrotate,systemd-tmpfiles-clean}.timer
    getty.target sys-fs-fuse-connections.mount sys-kernel-{config,debug,tracing}.mount dev-{hugepages,mqueue}.mount
    run-lock.mount tmp.mount kmod-static-nodes.service
    systemd-{modules-load,sysctl,tmpfiles-setup,user-sessions}.service
    modprobe@{configfs,drm,efi_pstore,fuse}.service proc-sys-fs-binfmt_misc.automount
    sshd-keygen.service sshd-unix-local.socket sshd-vsock.socket dbus.service dbus.socket
    ldconfig.service systemd-{binfmt,firstboot,hwdb-update,journal-catalog-update,journal-flush}.service
    systemd-{logind,machine-id-commit}.service
    systemd-{network-generator,networkd-persistent-storage,networkd-wait-online,pcrmachine,pcrphase,pstore}.service
    systemd-{random-seed,resolved,rfkill,sysusers,timesyncd,udev-load-credentials,update-done,update-utmp}.service
    systemd-{hibernate-clear,tmpfiles-setup-dev-early,tmpfiles-setup-dev}.service
    systemd-{ask-password-console,ask-password-wall}.path
    systemd-{creds,hostnamed,initctl,networkd,networkd-varlink,rfkill,sysext,pcrextend,pcrlock,bootctl}.socket
)
systemctl mask "${units[@]}"
mkdir -p /etc/systemd/system-generators /etc/systemd/system/systemd-udev-trigger.service.d
for generator in /usr/lib/systemd/system-generators/*; do
    ln -s /dev/null "/etc/systemd/system-generators/${generator##*/}"
done
cat >/etc/systemd/system/systemd-udev-trigger.service.d/vpneval.conf <<'END'
[Service]
ExecStart=
ExecStart=udevadm trigger --action=add --subsystem-match=net
END
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\n' >/etc/systemd/journald.conf.d/vpneval.conf
: >/etc/machine-id

# charon loads seventy plugins, which takes an emulated processor half a minute. Those that no VPN of the lab asks for:
off=(
    addrblock af-alg agent attr certexpire connmark counters curl dhcp dnskey eap-{aka,gtc,identity,md5,radius,tls,tnc,ttls}
    error-notify farp fips-prf forecast gcrypt ldap led lookip pgp pkcs11 pkcs12 pkcs7 rc2 resolve sshkey test-vectors
    tnc-tnccs tpm unity xauth-{eap,pam}
)
for plugin in "${off[@]}"; do
    sed -i 's/load = yes/load = no/' "/etc/strongswan.d/charon/$plugin.conf"
done

# The login: Vagrant's well-known key, for root and for its usual user. sshd makes itself a key at its first start.
useradd --create-home --shell /bin/bash --password '*' vagrant
install -D -o vagrant -g vagrant -m 600 /tmp/vagrant.pub /home/vagrant/.ssh/authorized_keys
install -D -m 600 /tmp/vagrant.pub /root/.ssh/authorized_keys # sudo costs an emulated processor seconds, each time
chown vagrant: /home/vagrant/.ssh
chmod 700 /home/vagrant/.ssh
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/vagrant
chmod 440 /etc/sudoers.d/vagrant
cat >/etc/ssh/sshd_config.d/vpneval.conf <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
MaxSessions 200
UseDNS no
UsePAM no
END
mkdir -p /etc/systemd/system/ssh.service.d
cat >/etc/systemd/system/ssh.service.d/vpneval.conf <<'END'
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c 'cd /etc/ssh; test -e ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N "" -f ssh_host_ed25519_key'
END
rm -f /etc/ssh/ssh_host_* /tmp/guest.sh /tmp/vagrant.pub
