# What /etc/vpneval/tunnel calls. It is the same for every VPN; gateway.sh has what differs.
set -eu
. /etc/vpneval/gateway.sh
daemons=

begin() {
    trap 'kill $daemons 2> /dev/null' EXIT
    close
    sysctl -qw net.ipv4.ip_forward=1 # at every start: what was set at boot may say otherwise
    before=$(ls /sys/class/net) # not of the tunnel
    [ -n "$mtu" ] || mtu=$(path_mtu)
    inner=$((mtu - encapsulation))
    clamp
}

close() { # while the tunnel is down, packets to the other site are refused; none leaves in the clear
    for lan in $closed; do ip route replace unreachable "$lan" metric 9999; done
}

path_mtu() { # the longest packet to the other gateway, bytes; 1400 where no ping comes through
    local peer=${wan%% *} bytes
    if ping "-$version" -c 2 -i 0.2 -W 1 "$peer" > /dev/null 2>&1; then
        for bytes in 1500 1492 1480 1472 1460 1454 1450 1440 1430 1420 1400 1380 1360 1340 1320 1300 1280; do
            if ping "-$version" -c 2 -i 0.2 -W 1 -M do -s $((bytes - ping_header)) "$peer" > /dev/null 2>&1; then
                echo "$bytes"
                return
            fi
        done
    fi
    echo 1400
}

clamp() { # TCP between the sites sends segments that fit into the tunnel
    nft -f - << END || echo "nftables refuses the rule that shortens TCP's segments; some may travel in fragments" >&2
table inet vpneval_tunnel
delete table inet vpneval_tunnel
table inet vpneval_tunnel {
    chain forward {
        type filter hook forward priority mangle; policy accept;
        ip daddr { ${lans// /, } } tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - 40))
        ip saddr { ${lans// /, } } tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - 40))
    }
}
END
}

shorten() { # the tunnel's device takes no packet that would travel in fragments
    local address device
    for address in $there; do
        device=$(ip -o route get "$address" 2> /dev/null | grep -o ' dev [^ ]*' | cut -c6-) || continue
        if echo "$before" | grep -qx "$device"; then continue; fi
        if [ "$(cat "/sys/class/net/$device/mtu" 2> /dev/null || echo 0)" -gt "$inner" ]; then
            ip link set "$device" mtu "$inner" || true
        fi
    done
}

daemon() { # start it; when one of them ends, the tunnel does, and is started anew
    "$@" &
    daemons="$daemons $!"
}

alive() { # do all daemons run?
    local pid
    for pid in $daemons; do kill -0 "$pid" 2> /dev/null || return 1; done
}

until_there() { # wait until a command succeeds, and ss says something; 10 s
    local said attempt
    for attempt in {1..100}; do
        if said=$("$@" 2> /dev/null) && [ "$1" != ss -o -n "$said" ]; then return 0; fi
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

end() { # until a daemon ends
    while alive; do
        shorten
        sleep 1
    done
    echo "a daemon of the tunnel has ended; the tunnel is started anew" >&2
    return 1
}
