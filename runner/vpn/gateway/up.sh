#!/bin/bash
# Sets this gateway's tunnel up, now and at every boot. Run it as root. A second time it changes nothing.
set -eu
cd "$(dirname "$0")"
lans6= here6=
. files/etc/vpneval/gateway.sh
exec < /dev/null
umask 022
export DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/sbin:/sbin"
kept=/var/lib/vpneval
no() {
    echo "$1 The tunnel was not set up.${2:+ $2}" >&2
    exit 1
}
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
for inner in */up.sh; do
    if [ -e "$inner" ]; then
        no "The recipe ${inner%/up.sh} was copied into the directory of another one, $PWD." \
            "Run $PWD/$inner, or remove $PWD and copy the recipe again."
    fi
done

# Commands, each with the package that has it: COMMAND=PACKAGE|PACKAGE, or =PACKAGE where only the package can be asked.
there() {
    local name names=${1#*=}
    if [ -n "${1%%=*}" ] && command -v "${1%%=*}" > /dev/null; then return 0; fi
    if ! command -v dpkg-query > /dev/null; then [ "${1%%=*}" = "" ]; return; fi
    for name in ${names//|/ }; do
        if dpkg-query -W -f '${Status}' "$name" 2> /dev/null | grep -q "ok installed"; then return 0; fi
    done
    return 1
}
add() {
    # As the lab image has it: recommended packages may even be another kernel.
    apt-get install -y --no-install-recommends "$1" || return 1
    # The services that a package brings would be in the way.
    for unit in $(dpkg -L "$1" | sed -n 's|.*/systemd/system/\([^@]*[.]service\)$|\1|p'); do
        systemctl disable --now "$unit" 2> /dev/null || true
    done
}
one_of() {
    local name
    for name in ${1//|/ }; do if add "$name"; then return 0; fi; done
    return 1
}
elsewhere() { # a Debian package's name in the distributions of Red Hat and SUSE
    case $1 in
        iproute2) echo iproute ;;
        iputils-ping) echo iputils ;;
        procps) echo procps-ng ;;
        openssh-client) echo openssh-clients ;;
        strongswan* | charon-systemd*) echo strongswan ;;
        stunnel4) echo stunnel ;;
        pptp-linux) echo pptp ;;
        *) echo "${1%%|*}" ;;
    esac
}
missing=
for need in $needs; do there "$need" || missing="$missing $need"; done
if [ -n "$missing" ] && command -v apt-get > /dev/null; then
    apt-get update || echo "The lists of packages could not be renewed." >&2
    failed=
    for need in $missing; do
        names=${need#*=}
        there "$need" || one_of "$names" || failed="$failed, ${names//|/ or }"
    done
    [ -z "$failed" ] || no "These packages could not be installed: ${failed#, }." "Install them, and run $0 again."
elif [ -n "$missing" ]; then
    commands= names=
    for need in $missing; do
        commands="$commands ${need%%=*}" names="$names $(elsewhere "${need#*=}")"
    done
    manager=$(command -v dnf yum zypper | head -n 1) || true
    no "These commands are missing here:$commands." "Install them, and run $0 again. \
Their packages are probably:${manager:+ ${manager##*/} install}$(printf '%s\n' $names | sort -u | tr '\n' ' ' | sed 's/^/ /; s/ $//')"
fi

# Is this the machine that the directory is for?
is_here() { ip -o addr show to "$1" 2> /dev/null | grep -q .; }
for address in $own $here $here6; do
    is_here "$address" || no "This machine does not have the address $address of $gateway." \
        "Copy this directory to $gateway. If $gateway has another address now, make the recipe anew."
done
for address in $wan; do
    if is_here "$address"; then no "The other gateway's address $address is this machine's own." "Is this $gateway?"; fi
done

# What would be in the way. It stays as it is.
if [ -e /etc/vpneval/gateway.sh ]; then
    set_up=$(unset recipe gateway && . /etc/vpneval/gateway.sh && echo "${recipe-a recipe} for ${gateway-this gateway}")
    if [ "$set_up" != "$recipe for $gateway" ]; then
        no "Another tunnel is set up here: $set_up. It stays as it is." "To replace it, run ${0%up.sh}down.sh, and $0 again."
    fi
fi
running() {
    if [ -d /run/systemd/system ]; then systemctl --quiet is-active vpneval-tunnel
    else kill -0 "$(cat /run/vpneval-tunnel.pid 2> /dev/null)" 2> /dev/null; fi
}
in_the_way() { no "$1" "Remove what is in the way, and run $0 again."; }
if running; then was_running=yes; else
    was_running=
    for port in $ports; do
        if ss -Hln "--${port%/*}" "sport = :${port#*/}" | grep -q .; then
            in_the_way "Port $port is in use: $(ss -Hlnp "--${port%/*}" "sport = :${port#*/}" | sed 's/.*users:/users:/')."
        fi
    done
    for device in $(cd /sys/class/net && echo $tunnel); do
        if [ -e "/sys/class/net/$device" ]; then in_the_way "There is an interface $device already."; fi
    done
fi

# Files. What was there before is kept beside them, and comes back with down.sh.
changed=
mkdir -p "$kept"
while read -r file; do
    to=${file#files}
    if cmp -s "$file" "$to"; then continue; fi
    changed=yes
    folder=$(dirname "$to")
    while [ ! -d "$folder" ]; do
        echo "$folder" >> "$kept/made"
        folder=$(dirname "$folder")
    done
    if [ -e "$to" ] && ! grep -qxF "$to" "$kept/files" 2> /dev/null; then cp -p "$to" "$to.before-vpneval"; fi
    echo "$to" >> "$kept/files"
    install -D -m "$(stat -c %a "$file")" "$file" "$to"
done < <(find files -type f | LC_ALL=C sort)
if [ ! -e "$kept/forwarding" ]; then sysctl -n net.ipv4.ip_forward > "$kept/forwarding"; fi
if [ -n "$lans6" ] && [ ! -e "$kept/forwarding6" ]; then
    grep -sl 1 /proc/sys/net/ipv6/conf/*/accept_ra > "$kept/accept_ra" || true
    cat /proc/sys/net/ipv6/conf/all/forwarding > "$kept/forwarding6"
fi

if [ -z "$changed" ] && [ -n "$was_running" ]; then
    echo "Nothing has changed. ./check.sh says whether the tunnel is up."
    exit 0
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable --quiet vpneval-closed vpneval-tunnel
    systemctl stop vpneval-tunnel # while the closing starts anew, no policy of the tunnel is there
    systemctl restart vpneval-closed
    systemctl start vpneval-tunnel
else
    for old in /run/vpneval-tunnel.pid /run/vpneval-closed.pid; do
        if [ -e "$old" ]; then kill -TERM -- "-$(cat "$old")" 2> /dev/null || true; fi
    done
    echo "There is no systemd here: nothing starts the tunnel at the next boot. Run $0 then."
    setsid bash -c '
        echo $$ > /run/vpneval-closed.pid
        while true; do
            bash -c ". /etc/vpneval/functions.sh && hold" || true
            sleep 0.1
        done' > /dev/null 2>&1 &
    setsid bash -c '
        echo $$ > /run/vpneval-tunnel.pid
        /etc/vpneval/undo
        while true; do
            /etc/vpneval/tunnel || true
            /etc/vpneval/undo
            sleep 5
        done' > /var/log/vpneval-tunnel.log 2>&1 &
fi
. /etc/vpneval/functions.sh
if [ -n "$closed" ] && ! has_nftables; then
    echo "$without_nftables A restart of the network, or routes of your own, may undo that. Load nf_tables, and run $0 again."
fi
echo "Started. When both gateways are, ./check.sh says whether the tunnel is up."
