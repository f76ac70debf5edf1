#!/bin/bash
# Takes back what up.sh did for this tunnel on this gateway, and for no other one. Packages stay installed. Run it as
# root, here or as /etc/vpneval/NAME/down.sh.
# shellcheck disable=SC1090,SC1091,SC2046,SC2086,SC2154 # gateway.sh has values and lists, which are split into words
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
# One change at a time on a gateway.
if [ -z "${vpneval_locked-}" ]; then vpneval_locked=yes exec flock --close /run/vpneval.lock "$0" "$@"; fi
cd "$(dirname "$0")"
name=${PWD##*/}
if [ -d files ]; then name=$(ls files/etc/vpneval); fi
kept=/var/lib/vpneval
if [ ! -e "/etc/vpneval/$name/gateway.sh" ]; then
    echo "The tunnel $name is not set up here."
    exit 0
fi
. "/etc/vpneval/$name/functions.sh"
set +f
if [ -d /run/systemd/system ]; then
    systemctl --quiet disable --now "vpneval-tunnel@$name" "vpneval-closed@$name" 2> /dev/null || true
else
    end_unit "vpneval-tunnel@$name"
    end_unit "vpneval-closed@$name"
    rm -f "/var/log/vpneval-tunnel@$name.log" "/var/log/vpneval-closed@$name.log"
fi
"$home/undo"
nft delete table ip "$closing" 2> /dev/null || true # one without an owner
nft delete table ip6 "$closing" 2> /dev/null || true
sort -u "$kept/$name" | while read -r file; do
    rm -f "$file"
    if [ -e "$file.before-vpneval" ]; then mv "$file.before-vpneval" "$file"; fi
done
rm -f "$kept/$name"
sort -ru "$kept/made" 2> /dev/null | xargs -r rmdir 2> /dev/null || true
# The tunnel that takes this one's place has closed the same networks.
for lan in $closed $closed6; do
    if grep -hs '^closed' /etc/vpneval/*/gateway.sh | grep -qwF -- "$lan"; then continue; fi
    if [[ $lan == *:* ]]; then ip -6 route del unreachable "$lan" metric 9999 2> /dev/null || true; continue; fi
    ip route del unreachable "$lan" metric 9999 2> /dev/null || true
    ip xfrm policy del $(bare "$lan") 2> /dev/null || true
    gone="${gone-}${gone:+ }$lan"
done
# The last tunnel gives back what all of them share.
if ! ls -d /etc/vpneval/*/ > /dev/null 2>&1; then
    if [ -e "$kept/forwarding" ]; then sysctl -qw net.ipv4.ip_forward=0; fi
    if [ -e "$kept/accept_ra" ]; then
        echo 0 > /proc/sys/net/ipv6/conf/all/forwarding
        while read -r file; do echo 1 > "$file" || true; done < "$kept/accept_ra"
    fi
    rm -rf "$kept"
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
echo "The tunnel $name is gone from this gateway."
if [ -n "${gone-}" ]; then echo "Nothing closes the way past it any more: what is for $gone takes this gateway's other routes."; fi
