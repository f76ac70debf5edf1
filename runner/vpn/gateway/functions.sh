# What the tunnel, its units and the scripts call. It is the same for every VPN; gateway.sh has what differs. Each tunnel
# of a gateway has a folder in /etc/vpneval, whose name is that of its units and nftables tables.
# shellcheck disable=SC1090,SC1091,SC2046,SC2086,SC2034,SC2053,SC2154 # gateway.sh has values and lists, which are split into words
set -euf
home=$(dirname "${BASH_SOURCE[0]}")
name=${home##*/} closing=vpneval_closed_${home##*/} clamping=vpneval_tunnel_${home##*/}
lan6='' lans6='' here6='' there6='' own6='' routes6='' closed6='' # IPv6 between the sites, where the tunnel carries it
. "$home/gateway.sh"
daemons=

begin() {
    trap stop EXIT
    refuse
    forward
    [ -n "$mtu" ] || mtu=$(path_mtu)
    inner=$((mtu - encapsulation))
    # A device has no IPv6 below that (RFC 8200, 5); the tunnel's own packets may then travel in fragments.
    if [ -n "$lans6" ] && [ "$inner" -lt 1280 ]; then inner=1280; fi
    clamped=yes
    clamp || clamped=
    carried=
    lost=0
}

forwards() { [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ]; }

forward() { # what was set at boot, or later, may say otherwise
    local port all=/proc/sys/net/ipv6/conf
    forwards || echo 1 > /proc/sys/net/ipv4/ip_forward
    if [ -z "$lans6" ] || [ "$(cat $all/all/forwarding)" != 0 ]; then return 0; fi
    # Who forwards hears no router's advertisements any more, unless it is told to (accept_ra, ip-sysctl.rst).
    grep -rlsx 1 $all --include=accept_ra | while read -r port; do echo 2 > "$port"; done
    echo 1 > $all/all/forwarding
}

# --- nothing leaves past the tunnel ---

refuse() { # hosts are told that the other site is not there while nothing leads to it
    local lan
    for lan in $closed; do
        ip route show type unreachable exact "$lan" | grep -q 9999 || ip route replace unreachable "$lan" metric 9999
        # IPsec in the kernel: what a NAT has made another packet of asks the policies anew.
        if [ -z "$tunnel" ] && ! ip xfrm policy get $(bare "$lan") > /dev/null 2>&1; then
            ip xfrm policy add $(bare "$lan") priority 4000000000 action block || true
        fi
    done
    for lan in $closed6; do
        ip -6 route show type unreachable exact "$lan" | grep -q 9999 ||
            ip -6 route replace unreachable "$lan" metric 9999 || true
    done
}

bare() { echo "src 0.0.0.0/0 dst $1 dir out"; } # what is not of a policy of the tunnel's own

in_tunnel() { # nft's words for what leaves in the tunnel, a line each
    local device
    for device in $tunnel; do echo "oifname \"$device\" $1"; done
    [ -n "$tunnel" ] || echo "rt ipsec exists $1"
}

rules() { # TABLE FLAGS FILE…: write the tunnel's rules for it, and print their names
    local file table=$1 flags=$2
    shift 2
    for file; do
        if [ ! -e "$home/$file.nft" ]; then continue; fi
        sed "s/TABLE/$table/; s/FLAGS/$flags/" "$home/$file.nft" > "/run/$table-$file.nft"
        echo "/run/$table-$file.nft"
    done
}

hold() { # for as long as this runs, the way past the tunnel is closed: vpneval-closed@NAME.service
    local flags file files
    refuse
    if [ -z "$closed" ] || ! has_nftables; then
        [ -z "$closed" ] || echo "$without_nftables" >&2
        ready
        while sleep 1; do refuse; done
    fi
    within_5_s not_held # what has held it until now is on its way out
    # Nobody else can change or flush a table that has an owner (Linux 5.12): this nft, which lives until its input ends.
    # One that persists outlives it (Linux 6.9), until the next one owns it.
    for flags in "flags owner, persist;" "flags owner;" ""; do
        if nft -c "table ip vpneval_probe { $flags }" 2> /dev/null; then break; fi
    done
    files=$(rules "$closing" "$flags" closed-ip whole-ip closed-ip6 whole-ip6)
    if [ -n "$flags" ]; then
        ( (within_5_s is_held; ready) &)
        exec nft -i < <(printf 'include "%s"\n' $files; while sleep 1; do refuse >&2; done) > /dev/null
    fi
    while true; do
        is_closed ip || for file in $files; do nft -f "$file" || true; done
        ready
        refuse
        sleep 1
    done
}

without_nftables="This kernel has no nftables for IPv4. A route alone closes the way past the tunnel."
has_nftables() { nft -c "add table ip vpneval_probe" 2> /dev/null; }

within_5_s() {
    for _ in {1..50}; do if "$@"; then return 0; fi; sleep 0.1; done
    echo "this did not happen within 5 s: $*" >&2
}

is_closed() { # ip or ip6
    nft list chain "$1" "$closing" past 2> /dev/null | grep -q drop
}

is_held() { is_closed ip && nft list table ip "$closing" | grep -q "flags owner"; }

not_held() { ! is_held; }

ready() { if [ -n "${NOTIFY_SOCKET-}" ]; then systemd-notify --ready; fi; }

# --- the tunnel ---

leads_to() { # the device by which a packet leaves: what `ip route get` is told; nothing where none leads there
    ip -o route get "$@" 2> /dev/null | grep -o ' dev [^ ]*' | head -n 1 | cut -c6-
}

is_tunnel() {
    local device
    for device in $tunnel; do if [[ $1 == $device ]]; then return 0; fi; done
    return 1
}

path_mtu() { # the longest packet to the other gateway, bytes; 1400 where no ping comes through
    local peer=${wan%% *} bytes
    if ping "-$version" -c 2 -i 0.2 -W 1 "$peer" > /dev/null 2>&1; then
        for bytes in 1500 1492 1480 1472 1460 1454 1450 1440 1430 1420 1400 1380 1360 1340 1320 1300 1280; do
            if ping "-$version" -c 2 -i 0.2 -W 1 -M "do" -s $((bytes - ping_header)) "$peer" > /dev/null 2>&1; then
                echo "$bytes"
                return
            fi
        done
    fi
    echo 1400
}

clamp() { # TCP between the sites sends segments that fit into the tunnel
    { clamp_of ip "$lans" 40; [ -z "$lans6" ] || clamp_of ip6 "$lans6" 60; } | nft -f - ||
        { echo "nftables refuses the rule that shortens TCP's segments; some may travel in fragments" >&2; return 1; }
}

clamp_of() { # FAMILY LANS HEADERS
    cat << END
table $1 $clamping
delete table $1 $clamping
table $1 $clamping {
    chain forward {
        type filter hook forward priority mangle; policy accept;
        $1 daddr { ${2// /, } } tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - $3))
        $1 saddr { ${2// /, } } tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - $3))
    }
}
END
}

unclamp() { for family in ip ip6; do nft delete table $family "$clamping" 2> /dev/null || true; done; }

daemon() { # start it; when one of them ends, the tunnel does, and is started anew
    "$@" &
    daemons="$daemons $!"
}

stop() { # the daemons; one that does not listen would hold the device that the next start needs
    if [ -z "$daemons" ] || ! kill $daemons 2> /dev/null; then return 0; fi
    for _ in {1..30}; do kill -0 $daemons 2> /dev/null || return 0; sleep 0.1; done
    kill -KILL $daemons 2> /dev/null || true
}

alive() { # do all daemons run?
    local pid
    for pid in $daemons; do kill -0 "$pid" 2> /dev/null || return 1; done
}

until_there() { # wait until a command succeeds, and ss says something; 10 s
    local said
    for _ in {1..100}; do
        if said=$("$@" 2> /dev/null) && { [ "$1" != ss ] || [ -n "$said" ]; }; then return 0; fi
        alive || break
        sleep 0.1
    done
    echo "this did not happen: $*" >&2
    return 1
}

unused() { # remove a file that a killed daemon left behind, but never the socket of one that runs
    local file
    for file; do
        if ss -Hxl | grep -qF " $file "; then
            echo "$file belongs to a daemon that runs already. Stop that first." >&2
            return 1
        fi
        rm -f "$file"
    done
}

look() { # the device takes no packet that would travel in fragments; what others have flushed is put back
    local address device leads=yes
    forward
    if [ -n "$clamped" ] && ! nft list table ip "$clamping" > /dev/null 2>&1; then clamp || true; fi
    for address in $there; do
        device=$(leads_to "$address")
        if [ -z "$tunnel" ]; then # policies of IPsec hold for every route, and for none that leads nowhere
            [ -n "$device" ] || leads=
        elif ! is_tunnel "$device"; then
            leads=
        elif [ "$(cat "/sys/class/net/$device/mtu" 2> /dev/null || echo 0)" -gt "$inner" ]; then
            ip link set "$device" mtu "$inner" || true
        fi
    done
    if [ -n "$leads" ]; then
        carried=yes
        lost=0
        look6 || true
    elif [ -n "$carried" ] && [ $((lost += 1)) -ge 5 ]; then
        echo "the route to the other site no longer leads into the tunnel; the tunnel is started anew" >&2
        return 1
    fi
}

look6() { # IPv6 goes by the device of IPv4's route; on an Ethernet the next hop has to be named
    local route address network hop device
    for route in $routes6; do
        IFS=, read -r address network hop <<< "$route"
        device=$(leads_to "$address")
        if ip -6 route show exact "$network" dev "$device" | grep -q .; then continue; fi
        sysctl -qw "net.ipv6.conf.$device.disable_ipv6=0"
        if ip link show dev "$device" | grep -q link/ether; then ip addr replace "$own6/64" dev "$device" nodad; else hop=; fi
        ip -6 route replace "$network" ${hop:+via "$hop"} dev "$device" src "$here6"
    done
}

end() { # until a daemon ends
    while alive; do
        look
        sleep 1
    done
    echo "a daemon of the tunnel has ended; the tunnel is started anew" >&2
    return 1
}

# --- without systemd ---

# shellcheck disable=SC2016
supervise() { # UNIT SECONDS COMMAND: what its unit does; for as long as the group of processes in its file lives
    setsid bash -c 'echo $$ > "/run/$0.pid"; while true; do bash -c "$2" || true; sleep "$1"; done' "$1" "$2" "$3" \
        < /dev/null > "/var/log/$1.log" 2>&1 &
    within_5_s test -s "/run/$1.pid"
}

end_unit() { # UNIT: and what it has started
    local group
    if [ ! -e "/run/$1.pid" ]; then return 0; fi
    group=$(cat "/run/$1.pid")
    kill -TERM -- "-$group" 2> /dev/null || true
    for _ in {1..50}; do kill -0 -- "-$group" 2> /dev/null || break; sleep 0.1; done
    kill -KILL -- "-$group" 2> /dev/null || true
    rm -f "/run/$1.pid"
}

is_running() { # UNIT
    if [ -d /run/systemd/system ]; then [[ $(systemctl is-active "$1") =~ ^(active|activating)$ ]]
    else kill -0 "$(cat "/run/$1.pid" 2> /dev/null)" 2> /dev/null; fi
}
