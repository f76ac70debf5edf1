#!/bin/bash
# Sets this gateway's tunnel up, now and at every boot. Run it as root. A second time it changes nothing.
# --replace NAME: takes down the tunnel NAME, which leads to the same networks, once the way past this one is closed.
# shellcheck disable=SC1090,SC1091,SC2046,SC2053,SC2086,SC2154 # gateway.sh has values and lists, which are split into words
set -euf
PATH="$PATH:/usr/sbin:/sbin"
no() {
    echo "$1 The tunnel was not set up.${2:+ $2}" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || no "$0 needs root." "Run it as: sudo $0"
# One change at a time on a gateway.
if [ -z "${vpneval_locked-}" ]; then vpneval_locked=yes exec flock --close /run/vpneval.lock bash "$0" "$@"; fi
cd "$(dirname "$0")"
inner=$(find . -mindepth 2 -maxdepth 2 -name up.sh)
[ -z "$inner" ] || no "Another recipe was copied into this directory: $PWD/${inner#./}." "Run that, or remove $PWD and copy again."
. files/etc/vpneval/@NAME@/functions.sh
home=/etc/vpneval/$name replaced=
exec < /dev/null
umask 022
case $#,${1-} in
    0,) ;;
    2,--replace) replaced=$2 ;;
    *) no "$0 was called with: $*." "Call it with nothing, or with --replace NAME." ;;
esac
[ -z "$replaced" ] || [ -e "/etc/vpneval/$replaced/gateway.sh" ] ||
    no "There is no tunnel $replaced on this gateway." "The tunnels here: $(find /etc/vpneval -mindepth 1 -maxdepth 1 -printf '%f ' 2> /dev/null)."

# --- is this the machine that the directory is for? ---

is_here() { ip -o addr show to "$1" 2> /dev/null | grep -q .; }
if command -v ip > /dev/null; then
    for address in $own $here $here6; do
        is_here "$address" || no "This machine does not have the address $address of $gateway." \
            "Copy this directory to $gateway. If $gateway has another address now, make the recipe anew."
    done
    for address in $wan; do
        if is_here "$address"; then no "The other gateway's address $address is this machine's own." "Is this $gateway?"; fi
    done
fi

# --- programs ---

installed() { dpkg-query -W -f '${db:Status-Status}\n' "$@" 2> /dev/null | grep -qx installed; }
lacking='' packages=''
for need in $needs; do # COMMAND=PACKAGE, or =PACKAGE|PACKAGE, of which one is enough
    if command -v "${need%%=*}" > /dev/null || installed ${need//[=|]/ }; then continue; fi
    lacking="$lacking ${need%%=*}" packages="$packages${packages:+, }${need#*=}"
done
# Recommended packages may even be another kernel.
satisfy() { DEBIAN_FRONTEND=noninteractive apt-get satisfy -y --no-install-recommends "$packages"; }
services() { find /lib/systemd/system/ -name '*[^@].service' -printf '%f\n'; }
if [ -n "$packages" ] && command -v apt-get > /dev/null; then
    before=$(services)
    satisfy 2> /dev/null || { apt-get update && satisfy; } ||
        no "These packages could not be installed: $packages." "Install them, and run $0 again."
    # The services that have come with them would be in the way.
    services | grep -vxF "$before" | xargs -r systemctl --quiet disable --now || true
elif [ -n "${lacking// /}" ]; then
    no "These commands are missing here:$lacking." "Install them, and run $0 again. Debian has them in: $packages."
fi
systemctl show-environment > /dev/null 2>&1 || no "There is no systemd here, which starts the tunnel at every boot."

lacking=$([ -z "$seen_as" ] || sed "s/TABLE/vpneval_probe/; s/FLAGS//" "files$home/whole-ip.nft" | nft -c -f - 2>&1 | head -n 1)
[ -z "$lacking" ] || no "This gateway cannot translate addresses one to one, by nftables of Linux 5.8 or later: $lacking."

# --- would this gateway, or who is logged in, be cut off? ---

inside() { # NETWORK: what is in it that this gateway needs beside the tunnel, a line each
    local of
    ip "$family" -o addr show to "$1" | sed 's/^/an address of this gateway: /'
    for of in root match; do ip "$family" route show proto kernel "$of" "$1" | sed -n 's/ dev / on its interface /p'; done
    ip "$family" route show via "$1" | sed 's/^/a router of this gateway: /'
    ss -Htnp state established dst "$1" | sed -n 's/ *users:(("sshd.*//p' | sed 's/^/who is logged in by ssh: /'
}
others() { # NETWORK: the other tunnels that lead to a part of it, by the routes that close their networks
    local of
    for of in root match; do ip "$family" route show type unreachable "$of" "$1"; done | cut -d' ' -f2 |
        xargs -I{} grep -rlwF "unreachable {}" --include=closed.ip /etc/vpneval | cut -d/ -f4 | grep -vxE "$name|$replaced"
}
for network in $closed $closed6; do
    if [[ $network == *:* ]]; then family=-6; else family=-4; fi
    # What this tunnel closes already cuts nobody off now.
    cut=$(grep -qs " unreachable $network " "$home/closed.ip" || inside "$network" | head -n 1)
    [ -z "$cut" ] || no "Only the tunnel may lead to $network, and in it is $cut." \
        "Name a smaller network of the other site in sites.toml, or log in from elsewhere, and make the recipe anew."
    other=$(others "$network" | head -n 1)
    [ -z "$other" ] || no "The tunnel $other leads to $network already, or to a part of it. It stays as it is." \
        "To put this one in its place, run: $0 --replace $other"
done

for network in $seen_as; do
    cut=$(family=-4 inside "$network" | grep -v " lo  *inet $seen/32 " | head -n 1)
    [ -z "$cut" ] || no "The other site is to see this one as $network, and in it is $cut." \
        "Choose another network_seen_as in sites.toml, and make the recipe anew."
done

# --- what would be in the way, and stays as it is ---

files=$(find files -type f)
other=$(grep -rsxF "${files//files\///}" --include="*-??????" "$kept" | grep -vE "^$kept/($name|$replaced):" | head -n 1) || true
[ -z "$other" ] || no "${other#*:} is of the tunnel $(basename "${other%%:*}"). It stays as it is." \
    "To put this one in its place, run: $0 --replace $(basename "${other%%:*}")"
if ! is_running "vpneval-tunnel@$name"; then
    freed=$([ -z "$replaced" ] || (. "/etc/vpneval/$replaced/gateway.sh" && echo "$ports $tunnel")) # by the replaced tunnel
    for port in $ports; do
        if [[ " $freed " != *" $port "* ]] && user=$(ss -Hlnp "--${port%/*}" "sport = :${port#*/}"); then
            no "Port $port is in use: ${user##*users:}." "Remove what is in the way, and run $0 again."
        fi
    done
    for network in ${tunnel:+$lans}; do # a route with a metric of its own stays beside the tunnel's
        route=$([ -n "$replaced" ] || ip -4 route show exact "$network" | grep -vE '^unreachable | metric ' | head -n 1)
        [ -z "$route" ] || no "There is a route to $network already: $route." \
            "Remove it, or give it a metric, as in: ip route add $route metric 100. Then run $0 again."
    done
    for pattern in $tunnel; do
        device=$(find /sys/class/net/ -name "$pattern" -printf '%f\n' | head -n 1)
        if [ -n "$device" ] && [[ " $freed " != *" $pattern "* ]]; then
            no "There is an interface $device already." "Remove what is in the way, and run $0 again."
        fi
    done
fi

# --- files: what was there before is kept beside them, and comes back with down.sh ---

put() { # FILE…: sets changed
    local file to
    for file; do
        case $file in files/*) to=${file#files} ;; *) to=$home/$file ;; esac
        if cmp -s "$file" "$to"; then continue; fi
        if ! grep -qsxF "$to" "$kept/$name"; then
            if [ -e "$to" ]; then cp -p "$to" "$to.before-vpneval"; fi
            echo "$to" >> "$kept/$name"
        fi
        LC_ALL=C mkdir -pv "$(dirname "$to")" | sed "s/.*'\(.*\)'/\1/" >> "$kept/made"
        : > "$pending" # whoever is interrupted from here on has to load what has changed when it is run again
        install -m "$(stat -c %a "$file")" "$file" "$to"
    done
}
mkdir -p "$kept"
grep -qsxF "$home/outside" "$kept/$name" || echo "$home/outside" >> "$kept/$name"
pending=/run/vpneval-$name.pending
stale=$(grep -vxFf "files$home/closed.ip" "$home/closed.ip" 2> /dev/null) || true # routes of before an edit
put $(find "files$home" files/etc/systemd -type f) check.sh down.sh
systemctl daemon-reload
systemctl enable --quiet "vpneval-closed@$name" "vpneval-tunnel@$name"
if [ -e "$lacks" ] && has_nftables; then : > "$pending"; fi # somebody has loaded nf_tables since
if [ -e "$pending" ]; then
    systemctl stop "vpneval-tunnel@$name" # before the rules are loaded anew
    rules "${closing}_meanwhile" "" $all | nft -i > /dev/null 2>&1 || true
    systemctl restart "vpneval-closed@$name"
    for family in ip ip6; do nft delete table "$family" "${closing}_meanwhile" 2> /dev/null || true; done
fi
systemctl start "vpneval-closed@$name"
reopen <<< "$stale" > /dev/null
if [ -n "$replaced" ]; then "/etc/vpneval/$replaced/down.sh"; fi
put $files
if [ ! -e "$pending" ] && is_running "vpneval-tunnel@$name"; then
    echo "Nothing has changed. ./check.sh says whether the tunnel is up."
    exit 0
fi
systemctl restart "vpneval-tunnel@$name"
rm -f "$pending"
if [ -n "$closed" ] && ! has_nftables; then
    echo "$without_nftables A restart of the network, or routes of your own, may undo that. Load nf_tables, and run $0 again."
fi
echo "Started. When both gateways are, ./check.sh says whether the tunnel is up."
