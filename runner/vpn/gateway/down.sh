#!/bin/bash
# Takes back what up.sh did for this tunnel on this gateway, and for no other one. Packages stay installed. Run it as root.
# shellcheck disable=SC1091,SC2154 # gateway.sh has values
set -eu
PATH="$PATH:/usr/sbin:/sbin"
name=@NAME@ home=/etc/vpneval/@NAME@
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
# One change at a time on a gateway.
if [ -z "${vpneval_locked-}" ]; then vpneval_locked=yes exec flock --close /run/vpneval.lock bash "$0" "$@"; fi
if [ ! -e "$home/gateway.sh" ]; then
    echo "The tunnel $name is not set up here."
    exit 0
fi
. "$home/functions.sh"
systemctl --quiet disable --now "vpneval-tunnel@$name" "vpneval-closed@$name" || true # up.sh may have been interrupted
if [ -e "$home/undo" ]; then "$home/undo"; fi
for table in "$closing" "${closing}_meanwhile"; do # one that persists; one of an up.sh that was interrupted
    for family in ip ip6; do nft delete table "$family" "$table" 2> /dev/null || true; done
done
mine=$(cat "$home/closed.ip" 2> /dev/null) || true
while read -r file; do
    rm -f "$file"
    if [ -e "$file.before-vpneval" ]; then mv "$file.before-vpneval" "$file"; fi
done < "$kept/$name"
rm -f "$kept/$name" "/run/vpneval-$name.pending" "$lacks"
sort -ru "$kept/made" | xargs rmdir 2> /dev/null || true
gone=$(reopen <<< "$mine") # what another tunnel closes as well, stays closed
if [ ! -d /etc/vpneval ]; then # the last tunnel gives back what all of them share
    touch "$kept/switches"
    while read -r file was set; do
        if [ "$(cat "$file")" != "$set" ]; then continue; fi
        echo "$was" > "$file" || true
        echo "$file is $was again, as before the first tunnel. Who has needed it meanwhile has to set it."
    done < "$kept/switches"
    rm -rf "$kept"
fi
systemctl daemon-reload
echo "The tunnel $name is gone from this gateway."
if [ -n "$gone" ]; then echo "Nothing closes the way past it any more: what is for $closed $closed6 takes this gateway's other routes."; fi
