#!/bin/bash
# Takes back what up.sh did on this gateway. Packages stay installed. Run it as root.
set -eu
cd "$(dirname "$0")"
closed6=
. files/etc/vpneval/gateway.sh
if [ -e /etc/vpneval/gateway.sh ]; then . /etc/vpneval/gateway.sh; fi # what is set up here
kept=/var/lib/vpneval
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
ended() { # FILE: with the processes of the group that it names
    local group attempt
    if [ ! -e "$1" ]; then return 0; fi
    group=$(cat "$1")
    kill -TERM -- "-$group" 2> /dev/null || true
    for attempt in {1..50}; do
        if kill -0 -- "-$group" 2> /dev/null; then sleep 0.1; else break; fi
    done
    kill -KILL -- "-$group" 2> /dev/null || true
    rm -f "$1"
}
if [ -d /run/systemd/system ]; then
    systemctl --quiet disable --now vpneval-tunnel vpneval-closed 2> /dev/null || true
else
    ended /run/vpneval-tunnel.pid
    ended /run/vpneval-closed.pid
    rm -f /var/log/vpneval-tunnel.log
fi
if [ -x /etc/vpneval/undo ]; then /etc/vpneval/undo; fi
nft delete table ip vpneval_closed 2> /dev/null || true # one without an owner
nft delete table ip6 vpneval_closed 2> /dev/null || true
for lan in $closed; do
    ip route del unreachable "$lan" metric 9999 2> /dev/null || true
    ip xfrm policy del src 0.0.0.0/0 dst "$lan" dir out 2> /dev/null || true
done
for lan in $closed6; do ip -6 route del unreachable "$lan" metric 9999 2> /dev/null || true; done
if [ -e "$kept/files" ]; then
    sort -u "$kept/files" | while read -r file; do
        rm -f "$file"
        if [ -e "$file.before-vpneval" ]; then mv "$file.before-vpneval" "$file"; fi
    done
fi
if [ -e "$kept/made" ]; then sort -ru "$kept/made" | xargs -r rmdir 2> /dev/null || true; fi
if [ -e "$kept/forwarding" ]; then sysctl -qw "net.ipv4.ip_forward=$(cat "$kept/forwarding")"; fi
if [ "$(cat "$kept/forwarding6" 2> /dev/null)" = 0 ]; then
    echo 0 > /proc/sys/net/ipv6/conf/all/forwarding
    while read -r file; do echo 1 > "$file" || true; done < "$kept/accept_ra"
fi
rm -rf "$kept"
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
echo "The tunnel is gone from this gateway."
