#!/bin/bash
# Sets this gateway's tunnel up, now and at every boot. Run it as root. A second time it changes nothing.
# --replace NAME: takes down the tunnel NAME, which leads to the same networks, once the way past this one is closed.
# shellcheck disable=SC1090,SC1091,SC2046,SC2086,SC2154 # gateway.sh has values and lists, which are split into words
set -eu
PATH="$PATH:/usr/sbin:/sbin"
no() {
    echo "$1 The tunnel was not set up.${2:+ $2}" >&2
    exit 1
}
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
# One change at a time on a gateway.
if [ -z "${vpneval_locked-}" ]; then vpneval_locked=yes exec flock --close /run/vpneval.lock "$0" "$@"; fi
cd "$(dirname "$0")"
for inner in */up.sh; do
    if [ -e "$inner" ]; then
        no "The recipe ${inner%/up.sh} was copied into the directory of another one, $PWD." \
            "Run $PWD/$inner, or remove $PWD and copy the recipe again."
    fi
done
for functions in files/etc/vpneval/*/functions.sh; do . "$functions"; done
set +f
home=/etc/vpneval/$name kept=/var/lib/vpneval replaced=
exec < /dev/null
umask 022
export DEBIAN_FRONTEND=noninteractive
case $#,${1-} in
    0,) ;;
    2,--replace) replaced=$2 ;;
    *) no "$0 was called with: $*." "Call it with nothing, or with --replace NAME." ;;
esac
if [ -n "$replaced" ] && [ ! -e "/etc/vpneval/$replaced/gateway.sh" ]; then
    there=$(cd /etc/vpneval 2> /dev/null && echo *) || there=none
    no "There is no tunnel $replaced on this gateway." "The tunnels here: $there."
fi

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
    commands='' names=''
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

# What these networks would cut off, once only the tunnel leads to them.
within() { # ADDRESS NETWORK, of IPv4
    local IFS=./
    set -- $1 $2
    [ $# = 9 ] && (((($1 << 24 | $2 << 16 | $3 << 8 | $4) ^ ($5 << 24 | $6 << 16 | $7 << 8 | $8)) >> (32 - $9) == 0))
}
cut_off() { # NETWORK: a line for each
    local family=-4 of address
    if [[ $1 == *:* ]]; then family=-6; fi
    ip -o addr show to "$1" | sed 's|.* inet6\{0,1\} \([^ /]*\).*|this gateway, which has the address \1|'
    for of in root match; do ip "$family" route show proto kernel "$of" "$1"; done |
        sed -n 's/^\([0-9a-f].*\) dev \([^ ]*\).*/the network \1 on its interface \2/p'
    for address in $(ip -4 route show default | grep -o 'via [^ ]*' | cut -c5-) $wan; do
        if within "$address" "$1"; then echo "the router or other gateway $address"; fi
    done
    for address in $(ss -Htnp state established | sed -n 's/.* \[*\(::ffff:\)*\([0-9.]*\)]*:[0-9]* *users:(("sshd.*/\2/p'); do
        if within "$address" "$1"; then echo "$address, which is logged in by ssh"; fi
    done
}
if [ ! -e "$home/gateway.sh" ]; then
    for network in $closed $closed6; do
        cut=$(cut_off "$network" | head -n 1)
        [ -z "$cut" ] || no "Only the tunnel may lead to $network, and in it is $cut." \
            "Name a smaller network of the other site in sites.toml, or log in from elsewhere, and make the recipe anew."
    done
fi

# What would be in the way. It stays as it is.
in_the_way() { no "$1" "Remove what is in the way, and run $0 again."; }
others() { # NETWORK: the other tunnels that lead to a part of it, by the routes that close their networks
    local family=-4 of other
    if [[ $1 == *:* ]]; then family=-6; fi
    for of in root match; do ip "$family" route show type unreachable "$of" "$1"; done |
        sed -n 's/^unreachable \([^ ]*\) .*metric 9999.*/\1/p' | while read -r network; do
        for other in /etc/vpneval/*/; do
            other=$(basename "$other")
            if [ "$other" != "$name" ] && [ "$other" != "$replaced" ] &&
                grep '^closed' "/etc/vpneval/$other/gateway.sh" | grep -qwF -- "$network"; then echo "$other"; fi
        done
    done
}
for network in $closed $closed6; do
    other=$(others "$network" | head -n 1)
    if [ -n "$other" ]; then
        no "The tunnel $other leads to $network already, or to a part of it. It stays as it is." \
            "To put this one in its place, run: $0 --replace $other"
    fi
done
while read -r file; do
    other=$(cd "$kept" 2> /dev/null && grep -lxF -- "${file#files}" *-* | grep -vxF -e "$name" -e "$replaced" | head -n 1) || true
    [ -z "$other" ] || no "${file#files} is of the tunnel $other. It stays as it is." "To put this one in its place, run: $0 --replace $other"
done < <(find files -type f)
was_running=
if is_running "vpneval-tunnel@$name"; then was_running=yes; else
    freed= # what the replaced tunnel has
    [ -z "$replaced" ] || freed=$(set -f && . "/etc/vpneval/$replaced/gateway.sh" && echo "$ports $tunnel")
    for port in $ports; do
        if [[ " $freed " != *" $port "* ]] && ss -Hln "--${port%/*}" "sport = :${port#*/}" | grep -q .; then
            in_the_way "Port $port is in use: $(ss -Hlnp "--${port%/*}" "sport = :${port#*/}" | sed 's/.*users:/users:/')."
        fi
    done
    for pattern in $(set -f; echo $tunnel); do
        if [[ " $freed " == *" $pattern "* ]]; then continue; fi
        for device in /sys/class/net/$pattern; do
            if [ -e "$device" ]; then in_the_way "There is an interface ${device##*/} already."; fi
        done
    done
fi

# Files. What was there before is kept beside them, and comes back with down.sh.
changed=
mkdir -p "$kept"
put() { # what find(1) is to look at
    local file to folder
    while read -r file; do
        to=${file#files}
        if [ "$to" = "$file" ]; then to=$home/$file; fi
        if cmp -s "$file" "$to"; then continue; fi
        changed=yes
        folder=$(dirname "$to")
        while [ ! -d "$folder" ]; do
            echo "$folder" >> "$kept/made"
            folder=$(dirname "$folder")
        done
        if [ -e "$to" ] && ! grep -qxF "$to" "$kept/$name" 2> /dev/null; then cp -p "$to" "$to.before-vpneval"; fi
        echo "$to" >> "$kept/$name"
        install -D -m "$(stat -c %a "$file")" "$file" "$to"
    done < <(find "$@" -type f | LC_ALL=C sort)
}
put "files$home" files/etc/systemd check.sh down.sh
# What only has to be given back if nobody else had set it.
if [ "$(sysctl -n net.ipv4.ip_forward)" = 0 ]; then touch "$kept/forwarding"; fi
if [ -n "$lans6" ] && [ "$(cat /proc/sys/net/ipv6/conf/all/forwarding)" = 0 ]; then
    grep -sl 1 /proc/sys/net/ipv6/conf/*/accept_ra > "$kept/accept_ra" || true
fi
stop_unit() {
    if [ -d /run/systemd/system ]; then systemctl stop "$1@$name"; else end_unit "$1@$name"; fi
}
start_unit() { # UNIT SECONDS COMMAND
    if [ -d /run/systemd/system ]; then systemctl start "$1@$name"; else supervise "$1@$name" "$2" "$3"; fi
}
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable --quiet "vpneval-closed@$name" "vpneval-tunnel@$name"
elif [ -z "$was_running" ]; then
    echo "There is no systemd here: nothing starts the tunnel at the next boot. Run $0 then."
fi
if [ -n "$changed" ] || ! is_running "vpneval-closed@$name"; then
    changed=yes
    stop_unit vpneval-tunnel # while the closing starts anew, no policy of the tunnel is there
    meanwhile=${closing}_meanwhile
    for file in $(rules "$meanwhile" "" closed-ip closed-ip6); do nft -f "$file" 2> /dev/null || true; done
    stop_unit vpneval-closed
    start_unit vpneval-closed 0.1 ". $home/functions.sh && hold"
    if [ -n "$closed" ] && has_nftables; then within_5_s is_closed ip; fi
    for family in ip ip6; do nft delete table "$family" "$meanwhile" 2> /dev/null || true; done
fi
if [ -n "$replaced" ]; then "/etc/vpneval/$replaced/down.sh"; fi
put files
if [ -z "$changed" ] && [ -n "$was_running" ]; then
    echo "Nothing has changed. ./check.sh says whether the tunnel is up."
    exit 0
fi
stop_unit vpneval-tunnel
start_unit vpneval-tunnel 5 "$home/undo; $home/tunnel; $home/undo"
if [ -n "$closed" ] && ! has_nftables; then
    echo "$without_nftables A restart of the network, or routes of your own, may undo that. Load nf_tables, and run $0 again."
fi
echo "Started. When both gateways are, ./check.sh says whether the tunnel is up."
