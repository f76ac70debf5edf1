#!/bin/bash
# Sets this gateway's tunnel up, now and at every boot. Run it as root. A second time it changes nothing.
set -eu
cd "$(dirname "$0")"
. files/etc/vpneval/gateway.sh
exec < /dev/null
umask 022
export DEBIAN_FRONTEND=noninteractive
kept=/var/lib/vpneval
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi

# Packages. A|B: the first that there is.
there() { command -v "$1" > /dev/null || dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q "ok installed"; }
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
    for name in ${2//|/ }; do if "$1" "$name"; then return 0; fi; done
    return 1
}
missing=
for names in $packages; do one_of there "$names" || missing="$missing $names"; done
if [ -n "$missing" ]; then
    apt-get update || echo "The lists of packages could not be renewed." >&2
    failed=
    for names in $missing; do one_of add "$names" || failed="$failed, ${names//|/ or }"; done
    if [ -n "$failed" ]; then
        echo "These packages could not be installed: ${failed#, }. The tunnel was not set up." >&2
        echo "Install them, and run $0 again." >&2
        exit 1
    fi
fi

# What would be in the way. It stays as it is.
running() {
    if [ -d /run/systemd/system ]; then systemctl --quiet is-active vpneval-tunnel
    else kill -0 "$(cat /run/vpneval-tunnel.pid 2> /dev/null)" 2> /dev/null; fi
}
conflict() {
    echo "$1 The tunnel was not set up. Remove what is in the way, and run $0 again." >&2
    exit 1
}
if running; then was_running=yes; else
    was_running=
    for port in $ports; do
        if ss -Hln "--${port%/*}" "sport = :${port#*/}" | grep -q .; then
            conflict "Port $port is in use: $(ss -Hlnp "--${port%/*}" "sport = :${port#*/}" | sed 's/.*users:/users:/')."
        fi
    done
    for device in $devices; do
        if [ -e "/sys/class/net/$device" ]; then conflict "There is an interface $device already."; fi
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

if [ -z "$changed" ] && [ -n "$was_running" ]; then
    echo "Nothing has changed. ./check.sh says whether the tunnel is up."
    exit 0
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable --quiet vpneval-closed vpneval-tunnel
    systemctl restart vpneval-closed vpneval-tunnel
else
    if [ -n "$was_running" ]; then kill -TERM -- "-$(cat /run/vpneval-tunnel.pid)"; fi
    echo "There is no systemd here: nothing starts the tunnel at the next boot. Run $0 then."
    setsid bash -c '
        echo $$ > /run/vpneval-tunnel.pid
        /etc/vpneval/undo
        while true; do
            /etc/vpneval/tunnel || true
            /etc/vpneval/undo
            sleep 5
        done' > /var/log/vpneval-tunnel.log 2>&1 &
fi
echo "Started. When both gateways are, ./check.sh says whether the tunnel is up."
