#!/bin/bash
# Does the tunnel carry what hosts send, and does nothing go past it? Ends with 0 if so. If not, it says what was seen
# and which line to add, and ends with 1. Run it as root.
set -eu
cd "$(dirname "$0")"
PATH="$PATH:/usr/sbin:/sbin"
if [ "$(id -u)" != 0 ]; then
    echo "$0 needs root. Run it as: sudo $0" >&2
    exit 1
fi
if [ ! -e /etc/vpneval/gateway.sh ]; then
    echo "The tunnel is not set up here: run up.sh." >&2
    exit 1
fi
asked=$(. files/etc/vpneval/gateway.sh && echo "$recipe for $gateway")
for inner in */up.sh; do if [ -e "$inner" ]; then asked="${inner%/up.sh}, which was copied into $PWD"; fi; done
. /etc/vpneval/functions.sh
if [ "$asked" != "$recipe for $gateway" ]; then
    echo "Another tunnel is set up here: $recipe for $gateway, not $asked." >&2
    exit 1
fi
far=${there%% *} table="ip vpneval_check"
wrong=

problem() { # a sentence, and lines to run
    wrong=yes
    echo "$1" >&2
    shift
    for line; do echo "    $line" >&2; done
}

works() { # sets failed
    local address port
    for address in $there; do
        failed="no answer from $address to a ping from $here"
        if ! ping -c 1 -W 1 -I "$here" "$address" > /dev/null 2>&1; then return 1; fi
    done
    for address in $there6; do
        failed="no answer from $address to a ping from $here6"
        if ! ping -c 1 -W 1 -I "$here6" "$address" > /dev/null 2>&1; then return 1; fi
    done
    for port in $listens; do
        failed="nothing listens on TCP port $port"
        if ! ss -Hltn "sport = :$port" | grep -q .; then return 1; fi
    done
}

other_line() { # by which port do the tunnel's packets leave, where the route to the other gateway is not that of $own?
    local measured peer=${wan%% *} via before
    measured=$(ip -o addr show to "$own" | head -n 1 | cut -d' ' -f2)
    if [ "$measured" = lo ] || [ "$(leads_to "$peer")" = "$measured" ]; then return 0; fi
    before=$(cat "/sys/class/net/$measured/statistics/tx_packets")
    ping -q -c 10 -i 0.2 -W 1 -I "$here" "${there%% *}" > /dev/null || true
    # Some VPNs send from the address of the recipe, and so by its port.
    if [ $(($(cat "/sys/class/net/$measured/statistics/tx_packets") - before)) -ge 10 ]; then return 0; fi
    via=$(ip "-$version" route show table all default dev "$measured" | grep -o 'via [^ ]*' | head -n 1)
    echo "The tunnel's packets leave by $(leads_to "$peer"). The recipe is for $measured, which has $own. To send them there:"
    echo "    ip route replace $peer ${via:+$via }dev $measured"
}

# --- as a host ---

table_of() { # what `ip route get` is told: the table that has the route
    local table
    table=$(ip -o route get "$@" 2> /dev/null | grep -o ' table [^ ]*' | cut -c8-)
    echo "${table:-main}"
}

route_of_hosts() { # which rule sends them past the tunnel? The arguments are more of what `ip route get` is told
    local device table rule number
    if [ -z "$tunnel" ]; then return 0; fi # policies of IPsec hold for every route
    device=$(leads_to "$far" from "$host" iif "$port" "$@")
    if is_tunnel "$device"; then return 0; fi
    table=$(table_of "$far" from "$host" iif "$port" "$@")
    rule=$(ip rule | grep -E "lookup $table( |\$)" | head -n 1)
    number=$((${rule%%:*} > 0 ? ${rule%%:*} - 1 : 0))
    problem "What hosts send from $port to $lans does not enter the tunnel: it leads to ${device:-nowhere}, by the rule \
\"$(echo $rule)\". It is dropped. Add a rule before that one, and to where yours are kept:" \
        "ip rule add to $closed lookup $(table_of "$far") priority $number"
}

counted() { nft list counter $table "$1" | grep -o 'packets [0-9]*' | cut -c9-; }
bare() { nft list counter netdev vpneval_check bare 2> /dev/null | grep -q 'packets [1-9]'; }

watch() { # for the marker: where it comes in, leaves, and where its answer comes back
    local inside
    inside=$(in_tunnel "" | sed 's/^oifname/iifname/; s/^rt ipsec/meta ipsec/; s/ *$//')
    nft -f - << END || return 1
table $table {
    counter sent {}
    counter left {}
    counter sent_tcp {}
    counter left_tcp {}
    counter answered {}
    counter answered_bare {}
    chain prerouting {
        type filter hook prerouting priority -310;
        iifname "$port" ip daddr $far icmp type echo-request @th,64,64 0x$marker counter name sent meta nftrace set 1
        iifname "$port" ip daddr $far tcp dport $tcp_port counter name sent_tcp meta nftrace set 1
$(echo "$inside" | while read -r words; do
    echo "$words ip saddr $far icmp type echo-reply @th,64,64 0x$marker counter name answered accept"
done)
        ip saddr $far icmp type echo-reply @th,64,64 0x$marker counter name answered_bare
    }
    chain postrouting {
        type filter hook postrouting priority 190;
        ip daddr $far icmp type echo-request @th,64,64 0x$marker counter name left
        ip daddr $far tcp dport $tcp_port counter name left_tcp
    }
}
END
    nft -f - 2> /dev/null << END || true
table netdev vpneval_check {
    counter bare {}
    chain egress {
        type filter hook egress device "$wan_port" priority 0;
        ip daddr $far icmp type echo-request @th,64,64 0x$marker counter name bare
    }
}
END
}

send() { # from a namespace, into the LAN's port, as if a host had sent it
    local mac
    ip netns add vpneval-check
    ip link add vpneval-check type veth peer name eth0 netns vpneval-check
    mac=$(cat /sys/class/net/vpneval-check/address)
    ip link set vpneval-check up
    ip -n vpneval-check addr add "$host/32" dev eth0
    ip -n vpneval-check link set eth0 up
    ip -n vpneval-check route add default dev eth0
    ip -n vpneval-check neigh add "$far" lladdr "$mac" dev eth0
    tc qdisc add dev vpneval-check clsact
    tc filter add dev vpneval-check ingress protocol ip u32 match u32 0 0 action mirred ingress redirect dev "$port"
    # Many firewalls let pings through, and no TCP.
    ip netns exec vpneval-check timeout 0.3 bash -c ": < /dev/tcp/$far/$tcp_port" 2> /dev/null || true
    for _ in {1..10}; do
        ip netns exec vpneval-check ping -c 1 -W 0.3 -s 8 -p "$marker" -I "$host" "$far" > /dev/null || true
        if [ "$(counted answered)" != 0 ]; then return 0; fi
    done
}

clean() {
    if [ -n "$tracing" ]; then kill "$tracing" 2> /dev/null || true; fi
    ip link del vpneval-check 2> /dev/null || true
    ip netns del vpneval-check 2> /dev/null || true
    nft delete table $table 2> /dev/null || true
    nft delete table netdev vpneval_check 2> /dev/null || true
    rm -rf "$notes"
}

permit() { # the lines that let the sites' packets through the chain that has dropped one: FAMILY TABLE CHAIN
    local from iptables=iptables
    case $* in
        "" | "ip filter"*)
            # What drops and is not of nftables, is of the older iptables.
            if [ -z "$*" ] && command -v iptables-legacy > /dev/null; then iptables=iptables-legacy; fi
            for from in "$lan $closed" "$closed $lan"; do
                set -- $from
                if command -v ufw > /dev/null && ufw status 2> /dev/null | grep -q "Status: active"; then
                    echo "ufw route allow from $1 to $2"
                elif $iptables -n -L DOCKER-USER > /dev/null 2>&1; then echo "$iptables -I DOCKER-USER -s $1 -d $2 -j ACCEPT"
                else echo "$iptables -I FORWARD -s $1 -d $2 -j ACCEPT"; fi
            done
            ;;
        *" firewalld "*) # a policy is asked only about what comes from or goes to a zone that has a port or a source
            set -- firewall-cmd --permanent
            echo "$* --new-zone=othersite"
            echo "$* --zone=othersite --add-source=$closed"
            echo "$* --new-policy=sites"
            echo "$* --policy=sites --add-ingress-zone=ANY"
            echo "$* --policy=sites --add-egress-zone=ANY"
            for from in "source address=$lan destination address=$closed" "source address=$closed destination address=$lan"; do
                echo "$* --policy=sites --add-rich-rule='rule family=ipv4 $from accept'"
            done
            echo "firewall-cmd --reload"
            ;;
        *)
            echo "nft insert rule $* ip saddr $lan ip daddr $closed accept"
            echo "nft insert rule $* ip saddr $closed ip daddr $lan accept"
            ;;
    esac
}

as_a_host() { # a marker that only this check knows
    local tracing= notes
    notes=$(mktemp -d)
    trap clean EXIT
    tcp_port=$((40000 + RANDOM % 9999))
    marker=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
    if ! watch 2> "$notes/said"; then
        echo "Not tried: packets as from a host ($(head -n 1 "$notes/said")). Try one: ping $far"
    else
        nft monitor trace > "$notes/trace" &
        tracing=$!
        if ! send 2> "$notes/said" || [ "$(counted sent)" = 0 ]; then
            echo "Not tried: packets as from a host ($(head -n 1 "$notes/said")). Try one: ping $far"
        else judge; fi
    fi
    clean
    trap - EXIT
}

judge() { # where has the marker been?
    local dropped lines mark
    if bare; then
        problem "Packets to $lans leave $wan_port in the clear."
    elif [ "$(counted answered)" != 0 ] && { [ "$(counted left_tcp)" != 0 ] || [ "$(counted sent_tcp)" = 0 ]; }; then
        return 0
    elif [ "$(counted answered_bare)" != 0 ]; then
        problem "The other gateway's answers come past the tunnel. Run check.sh there."
    else
        # trace id ID FAMILY TABLE CHAIN policy drop, or: rule … (verdict drop)
        dropped=$(grep -m 1 -E '(policy|verdict) drop' "$notes/trace" | cut -d' ' -f4-6) || true
        if [ "$dropped" = "ip vpneval_closed past" ]; then
            mark=$(grep -o 'meta mark 0x[0-9a-f]*' "$notes/trace" | tail -n 1 | cut -d' ' -f3)
            route_of_hosts ${mark:+mark "$mark"}
            [ -n "$wrong" ] || problem "What hosts send to $lans does not enter the tunnel, and is dropped."
        elif [ -n "$dropped" ] || [ "$(counted left)" = 0 ] || [ "$(counted left_tcp)" = 0 ]; then
            mapfile -t lines < <(permit $dropped)
            problem "This gateway's firewall drops what hosts send to the other site${dropped:+ (chain ${dropped##* } of \
table ${dropped% *})}. Let it through, and write the lines to where your firewall keeps its own:" "${lines[@]}"
        else
            problem "The other gateway does not answer what hosts send, only what $here sends. Run check.sh there."
        fi
    fi
}

ipv6() { # of the hosts, by which they may reach the other site without the tunnel
    local networks network
    if [ -n "$closed6" ] && has_nftables && ! nft list chain ip6 vpneval_closed past > /dev/null 2>&1; then
        problem "A route alone closes the way past the tunnel for IPv6: the table ip6 vpneval_closed is not there. Start \
its unit:" "systemctl restart vpneval-closed"
    fi
    for network in $there6; do
        if is_tunnel "$(leads_to "$network")"; then continue; fi
        problem "IPv6 to $network does not lead into the tunnel, and is dropped: ip -6 route get $network"
    done
    if [ -n "$lans6" ]; then return 0; fi
    networks=$(ip -6 -o route show dev "$port" proto kernel 2> /dev/null | grep -oE '^[23][0-9a-f:]+/[0-9]+' | tr '\n' ' ') || return 0
    if [ "$(sysctl -n net.ipv6.conf.all.forwarding 2> /dev/null || echo 0)" = 0 ] || [ -z "$networks" ]; then return 0; fi
    echo "The tunnel carries IPv4 alone, and hosts here have IPv6 addresses: what the other site sends to ${networks% } goes"
    echo "past the tunnel, in the clear. The other gateway drops it once files/etc/vpneval/gateway.sh in its directory says"
    echo "    closed6='${networks% }'"
    echo "and up.sh was run there."
}

for attempt in {1..10}; do
    if works; then failed=; break; fi
    sleep 1
done
if [ -n "$failed" ]; then problem "The tunnel is down: $failed."; fi
if [ -z "$failed" ]; then other_line; fi
if [ -n "$closed" ]; then
    wan_port=$(leads_to "${wan%% *}")
    port=$(ip -o addr show to "$here" | head -n 1 | cut -d' ' -f2)
    if ! has_nftables; then echo "$without_nftables"
    elif ! is_closed; then
        problem "A route alone closes the way past the tunnel: the table vpneval_closed is not there. Start its unit:" \
            "systemctl restart vpneval-closed"
    fi
    if ! nft list chain ip vpneval_closed whole 2> /dev/null | grep -q snat; then
        echo "A NAT of this gateway must leave out what is between the sites. If it has one, add before the NAT's rule:"
        echo "    iptables -t nat -I POSTROUTING -s $lan -d $closed -j ACCEPT"
    fi
    if is_tunnel "$(leads_to "$far")"; then route_of_hosts; fi
    if [ -z "$wrong" ]; then as_a_host; fi
    ipv6
fi
if [ -z "$wrong" ]; then
    echo "The tunnel is up."
    exit 0
fi
if [ -n "$failed" ]; then
    echo "The last messages here:" >&2
    if [ -d /run/systemd/system ]; then journalctl --no-pager --unit vpneval-tunnel --lines 20 >&2
    else tail -n 20 /var/log/vpneval-tunnel.log >&2 || true; fi
fi
exit 1
