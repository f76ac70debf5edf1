# shellcheck shell=bash disable=SC1091,SC2013,SC2034,SC2046,SC2053,SC2086,SC2154 # values and lists, split into words
# What the tunnel, its units and the scripts call. It is the same for every VPN; what differs is beside it: gateway.sh has
# this gateway's values, closed.ip its routes, and the files *.nft its rules, in nft's own words.
set -euf
home=$(dirname "${BASH_SOURCE[0]}")
name=${home##*/} closing=vpneval_closed_${home##*/} clamping=vpneval_tunnel_${home##*/}
kept=/var/lib/vpneval # what down.sh needs
lacks=/run/vpneval-$name.lacks-nftables # is there where the closing has found that the kernel has none
seen='' seen_as='' # where the other site has no other addresses for this one
. "$home/gateway.sh"
daemons=

within() { # SECONDS COMMAND…: wait until it succeeds, or a daemon of the tunnel has ended
    local end=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ] || ! alive; then
            echo "this did not happen: $*" >&2
            return 1
        fi
        sleep 0.1
    done
}

ss() { command ss "$@" | grep .; } # fails where it finds nothing

leads_to() { # the device by which a packet leaves: what `ip route get` is told; nothing where none leads there
    ip -o route get "$@" 2> /dev/null | grep -o ' dev [^ ]*' | head -n 1 | cut -c6-
}

address_of() { # NAME, or an address: the address that it has now; nothing where it has none
    [ -z "$1" ] || getent "ahostsv$version" "$1" | head -n 1 | cut -d' ' -f1
}

is_tunnel() { # DEVICE; IPsec of the kernel has none of its own: its policies hold for every device
    local pattern
    for pattern in ${tunnel:-?*}; do if [[ $1 == $pattern ]]; then return 0; fi; done
    return 1
}

reopen() { # takes back the routes that it reads and that no tunnel closes any more; prints them
    local gone mine
    mine=$(cat)
    gone=$(find /etc/vpneval -name closed.ip -exec cat {} + 2> /dev/null | grep -vxFf - <(echo "$mine")) || true
    sed 's/ add / del /; s/ priority .*//' <<< "$gone" | ip -force -batch - 2> /dev/null || true
    echo "$gone"
}

is_running() { [[ $(systemctl is-active "$1") =~ ^(active|activating)$ ]]; }

# --- nothing leaves past the tunnel: the unit vpneval-closed@NAME ---

refuse() { # hosts are told that the other site is not there while nothing leads to it; what is there already stays
    ip -force -batch "$home/closed.ip" 2> /dev/null || true
}

rules() { # TABLE FLAGS FILE…: write these rules of the closing, and print what nft is to read
    local file table=$1 flags=$2 outside
    outside=$(cat "$home/outside" 2> /dev/null || echo '"unknown"')
    shift 2
    for file; do
        if [ ! -e "$home/$file.nft" ]; then continue; fi
        sed "s/TABLE/$table/; s/FLAGS/$flags/; s/OUTSIDE/$outside/" "$home/$file.nft" > "/run/$table-$file.nft"
        echo "include \"/run/$table-$file.nft\""
    done
}
all="closed-ip whole-ip closed-ip6 whole-ip6 private-ip6"

outside() { # the ports that lead to the other gateway, and to the Internet by IPv6; it may be learnt after the closing
    { leads_to "$toward"; ip -6 route show default | grep -o ' dev [^ ]*' | cut -c6-; } | sort -u | sed 's/.*/"&"/' | paste -sd,
}

has_nftables() { nft -c "add table ip vpneval_probe" 2> /dev/null; }
without_nftables="This kernel has no nftables for IPv4. A route alone closes the way past the tunnel."

is_closed() {
    local family
    for family in ${closed:+ip} ${closed6:+ip6}; do nft list chain "$family" "$closing" past 2> /dev/null | grep -q drop || return 1; done
    [ -z "$seen_as" ] || nft list table ip "$closing" | grep -c " prefix to " | grep -qx 2
}

hold() { # what the unit runs: the way past the tunnel is closed for as long as this nft is there
    local flags
    refuse
    rm -f "$lacks"
    if [ -z "$closed" ] || ! within 2 has_nftables; then
        if [ -n "$closed" ]; then : > "$lacks"; fi
        while sleep 1; do refuse; done
    fi
    # A table with an owner (Linux 5.12) is changed and flushed by nobody else. It goes when this nft ends; with `persist`
    # (Linux 6.9) it stays, until the next nft owns it.
    for flags in "flags owner, persist;" "flags owner;" ""; do
        if nft -c "table ip vpneval_probe { $flags }" 2> /dev/null; then break; fi
    done
    exec nft -i > /dev/null < <(
        rules "$closing" "$flags" $all
        while true; do
            refuse
            ports=$(outside)
            if [ -n "$ports" ] && [ "$ports" != "$(cat "$home/outside" 2> /dev/null)" ]; then
                echo "$ports" > "$home/outside" || true # for the next boot, before there are routes
                rules "$closing" "$flags" private-ip6 || true
            fi
            sleep 1
            is_closed || rules "$closing" "$flags" $all # a first load that failed; without an owner, somebody's flush
        done
    )
}

# --- the tunnel: the unit vpneval-tunnel@NAME, whose commands are between begin and end ---

begin() {
    refuse
    be_seen
    forward
    inner=$((${mtu:=$(path_mtu)} - encapsulation))
    # A device has no IPv6 below that (RFC 8200, 5); the tunnel's own packets may then travel in fragments.
    if [ -n "$lans6" ] && [ "$inner" -lt 1280 ]; then inner=1280; fi
    clamped=yes carried='' lost=0 asked=0
    began=$([ -z "$moving" ] || ends)
    clamp || clamped=
}

be_seen() { # the other site may reach this gateway by an address that no port has
    [ -z "$seen" ] || ip addr replace "$seen/32" dev lo
}
unseen() { # another tunnel may have the same
    [ -z "$seen" ] || [ "$(grep -rxF "$(grep ^seen= "$home/gateway.sh")" --include=gateway.sh /etc/vpneval | wc -l)" != 1 ] ||
        ip addr del "$seen/32" dev lo 2> /dev/null || true
}

path_mtu() { # the longest packet that comes to each gateway which answers pings, bytes; 1400 where none does
    local address
    { for address in $wan; do mtu_to "$address" & done; wait; } | sort -n | grep -m 1 . || echo 1400
}
mtu_to() { # ADDRESS: the longest packet that comes there; nothing where no ping does
    local bytes ping="ping -$version -q -c 2 -i 0.2 -W 1 $1"
    $ping > /dev/null 2>&1 || return 0
    for bytes in 1500 1492 1480 1472 1460 1454 1450 1440 1430 1420 1400 1380 1360 1340 1320 1300 1280; do
        if $ping -M "do" -s $((bytes - ping_header)) > /dev/null 2>&1; then
            echo "$bytes"
            return
        fi
    done
}

clamp() { # TCP between the sites sends segments that fit into the tunnel
    nft -D segment=$((inner - 40)) -D segment6=$((inner - 60)) -f "$home/clamp.nft"
}
unclamp() { for family in ip ip6; do nft delete table $family "$clamping" 2> /dev/null || true; done; }

switch() { # FILE VALUE: what was there before is given back by the last tunnel's down.sh, where nobody has changed it since
    local was
    was=$(cat "$1")
    if [ "$was" = "$2" ]; then return 0; fi
    grep -qs "^$1 " "$kept/switches" || echo "$1 $was $2" >> "$kept/switches"
    echo "$2" > "$1"
}

forward() { # what was set at boot, or later, may say otherwise
    local file all=/proc/sys/net/ipv6/conf
    switch /proc/sys/net/ipv4/ip_forward 1
    if [ -z "$lans6" ] || [ "$(cat $all/all/forwarding)" != 0 ]; then return 0; fi
    # Who forwards hears no router's advertisements any more, unless it is told to (accept_ra, ip-sysctl.rst).
    for file in $(grep -rlsx 1 $all --include=accept_ra); do switch "$file" 2; done
    switch $all/all/forwarding 1
}

daemon() { # start it; when one of them ends, the tunnel does, and is started anew
    "$@" &
    daemons="$daemons $!"
}
alive() { # do all daemons run?
    local pid
    for pid in $daemons; do kill -0 "$pid" 2> /dev/null || return 1; done
}

unused() { # FILE…: remove what a killed daemon left behind, but never the socket of one that runs
    local file
    for file; do
        ! ss -Hxl src "$file" || return 1
        rm -f "$file"
    done
}

lan6_of() { sed -n '2s/route replace \([^ ]*\) .*/\1/p' "$home/inner-$1.ip"; } # ADDRESS of a gateway in its IPv4 network

look() { # once a second: puts back what others have changed; fails once no route has led into the tunnel for 5 s
    local address device led=
    be_seen
    forward
    if [ -n "$clamped" ] && ! nft list table ip "$clamping" > /dev/null 2>&1; then clamp || true; fi
    for address in $there; do
        device=$(leads_to "$address")
        if ! is_tunnel "$device"; then continue; fi # a spoke that is away
        led=yes
        # The device takes no packet that would travel in fragments.
        if [ -n "$tunnel" ] && [ "$(cat "/sys/class/net/$device/mtu" || echo 0)" -gt "$inner" ]; then
            ip link set "$device" mtu "$inner" || true
        fi
        # IPv6 goes by the same device.
        if [ -n "$lans6" ] && ! ip -6 route show exact "$(lan6_of "$address")" dev "$device" | grep -q " src $here6 "; then
            grep -qx 0 "/proc/sys/net/ipv6/conf/$device/disable_ipv6" || sysctl -qw "net.ipv6.conf.$device.disable_ipv6=0"
            sed "s/DEVICE/$device/" "$home/inner-$address.ip" | ip -force -batch - 2> /dev/null || true
        fi
    done
    if [ -n "$led" ]; then
        carried=yes lost=0
    elif [ -n "$carried" ] && [ $((lost += 1)) -ge 5 ]; then
        echo "the route to $there no longer leads into the tunnel; the tunnel is started anew" >&2
        return 1
    fi
}

ends() { # the addresses by which this gateway and the other one reach each other
    local to
    for to in ${wan:-$toward}; do
        ip -o route get "$(address_of "$to")" 2> /dev/null | sed -n 's/^\([^ ]*\) .* src \([^ ]*\) .*/\2 to \1/p'
    done
}

follow() { # every 5 s, where addresses change: fails once nobody answers, and they are others than at the start
    local address now
    if [ -z "$moving" ] || [ "$SECONDS" -lt "$asked" ]; then return 0; fi
    asked=$((SECONDS + 5))
    for address in $there; do
        if ping -q -c 3 -i 0.3 -W 1 -I "$here" "$address" > /dev/null 2>&1; then continue; fi
        now=$(ends)
        if [ -z "$now" ] || [ "$now" = "$began" ]; then continue; fi
        echo "no answer from $address. The path was from ${began:-nowhere}, and is from $now; the tunnel is started anew" >&2
        return 1
    done
}

end() { # until a daemon ends; the unit ends the others
    while alive; do
        look
        follow
        sleep 1
    done
    echo "a daemon of the tunnel has ended; the tunnel is started anew" >&2
    return 1
}
