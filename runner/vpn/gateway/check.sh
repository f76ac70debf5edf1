#!/bin/bash
# shellcheck disable=SC1091,SC2046,SC2053,SC2086,SC2154,SC2317 # gateway.sh has values and lists, which are split into words
# Does the tunnel carry what hosts send, and does nothing go past it? It says the first cause that it finds, with lines
# that help, and changes nothing that stays. Run it as root; --json says the same to a program. It ends with a code:
causes='
0 up           The tunnel NAME is up.
1 called       check.sh was called with: … Call it with nothing, or with --json.
1 root         check.sh needs root. Run it as: sudo …
1 absent       The tunnel NAME is not set up here.
2 unchecked    It could not be checked: …
3 open         The way past the tunnel is open: its nftables table is not there, or not whole. Start it:
4 stopped      The tunnel is down: its unit does not run. Start it:
5 certificate  The tunnel is down: …
6 forwarding   This gateway forwards nothing: somebody turns net.ipv4.ip_forward off. These files may do it:
7 no_answer    The tunnel is down: …
8 route        What hosts send to the other site does not enter the tunnel, and is dropped: …
9 firewall     A firewall of this gateway drops what hosts send to the other site…. Let it through, and write the lines to where your firewall keeps its own:
10 bare        Packets to the other site leave … in the clear.
11 other       The other gateway … Run check.sh there.
12 ipv6        IPv6 to … does not lead into the tunnel, and is dropped.
13 saved       The tunnel is up, but … has a table of vpneval in it, which only its unit can change: the next start of nftables will fail, and leave this gateway without your firewall. Remove each table whose name begins with vpneval_ from it. This line says whether it loads then:
14 nat         A NAT of this gateway may change what is between the sites, and this kernel has no nftables to leave it out. Add a line before the rules of the NAT, and to where yours are kept:
'
set -eEuf
PATH="$PATH:/usr/sbin:/sbin"
form=${1-} home=/etc/vpneval/@NAME@ start="systemctl restart vpneval-closed@@NAME@ vpneval-tunnel@@NAME@"
said='' notes=() work='' helpers=''

note() { # SENTENCE LINE…: what is not wrong, and an operator has to know
    local text=$1
    shift
    notes+=("$text" "${@/#/    }")
}
strings() { # as JSON has them
    [ $# = 0 ] || printf '%s\n' "$@" | sed 's/[\\"]/\\&/g; s/[[:cntrl:]]/ /g; s/.*/"&"/' | paste -sd,
}
verdict() { # CAUSE DETAIL LINE…: the one of this check
    local code cause text
    said=yes
    read -r code cause text < <(grep "^[0-9]* $1 " <<< "$causes")
    text=${text//NAME/@NAME@} text=${text/…/$2}
    shift 2
    if [ "$form" = --json ]; then
        echo "{\"tunnel\": \"@NAME@\", \"code\": $code, \"cause\": \"$cause\", \"text\": $(strings "$text")," \
            "\"lines\": [$(strings "$@")], \"notes\": [$(strings "${notes[@]}")]}"
    else
        [ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
        if [ "$code" = 0 ]; then echo "$text"; else printf '%s\n' "$text" "${@/#/    }" >&2; fi
    fi
    exit "$code"
}
finish() { # no end without a verdict
    clean
    [ -n "$said" ] || verdict unchecked "check.sh itself ended early (line ${at-?})."
}
clean() {
    exec 7>&-
    kill $helpers 2> /dev/null || true
    wait $helpers 2> /dev/null || true
    helpers=
    [ -z "$work" ] || rm -rf "$work"
    ip link del vpneval-check 2> /dev/null || true
    ip netns del vpneval-check 2> /dev/null || true
    for family in ip netdev; do nft delete table $family vpneval_check 2> /dev/null || true; done
}
again() { within 3 "$@" 2> /dev/null; } # beside a firewall that is loaded anew

# --- may it be checked? ---

case $#,$form in 0, | 1,--json) ;; *) verdict called "$*." ;; esac
[ "$(id -u)" = 0 ] || verdict root "$0"
if [ -z "${vpneval_checks-}" ]; then # one check at a time: they would count each other's packets
    code=0
    vpneval_checks=yes flock --close --timeout 300 --conflict-exit-code 200 /run/vpneval-check.lock "$0" "$@" || code=$?
    [ "$code" != 200 ] || verdict unchecked "other checks have not ended within 300 s."
    exit "$code"
fi
[ -e "$home/gateway.sh" ] || verdict absent ""
. "$home/functions.sh"
trap finish EXIT
trap 'at=$LINENO' ERR
clean # what a check that was killed has left
far=${there%% *} peer=$(address_of "${wan%% *}") to=${peer:-$toward} whole="POSTROUTING -s ${lan// /,} -d ${closed// /,} -j ACCEPT"

# --- do the gateways reach each other? ---

of_spoke() { # FIELD ADDRESS: a hub's gateway.sh has NAME=ADDRESS=WAN of each spoke
    tr ' ' '\n' <<< "${spokes-}" | grep -F "=$2=" | cut -d= -f"$1" || true
}
named() { # ADDRESS…: with the names of a hub's spokes
    local address who all=
    for address; do
        who=$(of_spoke 1 "$address")
        all="$all, ${who:+$who at }$address"
    done
    echo "${all#, }"
}
answered() { # sets failed and silent; all are asked at once
    local address port asked=()
    silent=()
    for address in $there $there6; do
        { ping -c 1 -W 1 -I "$here" "$address" || ping -c 1 -W 1 -I "$here6" "$address"; } &
        asked+=("$! $address")
    done
    for address in "${asked[@]}"; do wait "${address% *}" || silent+=("${address#* }"); done
    failed="no answer from $(named "${silent[@]}"), the other gateway's address in its network."
    [ ${#silent[@]} = 0 ] || return 1
    for port in $listens; do
        failed="nothing listens on TCP port $port."
        ss -Hltn "sport = :$port" || return 1
    done
    failed=
}
certificates() { # sets ended to what is wrong with one; notes one that ends soon
    local file from until now soon
    now=$(date -u "+%F %TZ") soon=$(date -u -d "30 days" "+%F %TZ") ended=
    for file in $(xargs grep -ls '^-----BEGI[N] CERTIFICATE' < "$kept/$name"); do
        # What has no dates is of another kind.
        { read -r from && read -r until; } < <(openssl x509 -noout -dates -dateopt iso_8601 -in "$file" 2> /dev/null | cut -d= -f2) ||
            continue
        if [[ $now < $from || $now > $until ]]; then
            ended="the certificate $file is valid from $from to $until, and the clock of this gateway says $now."
        elif [[ $soon > $until ]]; then
            note "The certificate $file ends at $until. \`vpneval tunnel renew\` makes new ones."
        fi
    done
}
down() {
    local who
    [ -z "$ended" ] || verdict certificate "$ended"
    if [ -n "${spokes-}" ]; then wan=$(of_spoke 3 "${silent[0]-}") peer=$(address_of "$wan") to=${peer:-$toward}; fi
    is_running "vpneval-tunnel@$name" || verdict stopped "" "$start"
    if [ -e "$lacks" ] && iptables-legacy -t nat -S POSTROUTING 2> /dev/null | grep -q ^-A &&
        ! iptables-legacy -t nat -C $whole 2> /dev/null; then verdict nat "" "iptables-legacy -t nat -I $whole"; fi
    if [ -z "$wan" ]; then who="The other gateway dials, from an address that is not known here"
    elif [ -z "$peer" ]; then who="The other gateway's name $wan has no address now (getent ahostsv$version $wan)"
    elif ping -c 1 -W 1 "$peer" > /dev/null 2>&1; then who="The other gateway's WAN address $peer answers pings"
    else who="The other gateway's WAN address $peer does not answer pings"; fi
    if [ -z "$(leads_to "$to")" ]; then who="$who. This gateway has no route to it: is the WAN port up?"; fi
    verdict no_answer "$failed ${who%.}. It must have the tunnel $name, too: \
one with another name has other keys. What the tunnel has said:" \
        "journalctl --no-pager --lines 20 --unit vpneval-tunnel@$name"
}
other_port() { # notes that the tunnel leaves by another port than that of the recipe, which has $own
    local meant via text sent
    if [ -z "$own" ] || [ -z "$peer" ]; then return; fi
    meant=$(ip -o addr show to "$own" | head -n 1 | cut -d' ' -f2)
    if [ -z "$meant" ]; then
        note "This gateway no longer has the address $own of the recipe."
        return
    fi
    if [[ $meant == @(lo|"$(leads_to "$peer")") ]]; then return; fi
    # Some VPNs send from the address of the recipe, and so by its port.
    sent=$(cat "/sys/class/net/$meant/statistics/tx_packets")
    ping -q -c 10 -i 0.2 -W 1 -I "$here" "$far" > /dev/null || true
    if [ $(($(cat "/sys/class/net/$meant/statistics/tx_packets") - sent)) -ge 10 ]; then return; fi
    text="The tunnel's packets leave by $(leads_to "$peer"). The recipe is for $meant, which has $own"
    via=$(ip "-$version" route show table all default dev "$meant" | grep -o 'via [^ ]* ' | head -n 1) || true
    # A line that is dead now would take the tunnel with it.
    if ping -c 2 -W 1 -I "$own" -I "$meant" "$peer" > /dev/null 2>&1; then
        note "$text. To send them there:" "ip route replace $peer ${via}dev $meant"
    else note "$text and by which the other gateway does not answer pings now."; fi
}

# --- as a host ---

table_of() { # what `ip route get` is told: the table that has the route
    ip -o route get "$@" 2> /dev/null | grep -o ' table [^ ]*' | cut -c8- | grep . || echo main
}
each_pair() { # COMMAND: with each pair of networks, where a site has several
    local near=${hosts-$host} others=${fars-$far} first=$host
    local host far port=$port
    for host in $near; do
        if [ "$host" != "$first" ]; then port=$(leads_to "$host"); fi
        for far in $others; do "$1"; done
    done
}
route_of_hosts() { # which rule sends them past the tunnel? The arguments are more of what `ip route get` is told
    local device rule network before lines=()
    device=$(leads_to "$far" from "$host" iif "$port" "$@")
    if is_tunnel "$device"; then return 0; fi
    rule=$(ip rule | grep -E "lookup $(table_of "$far" from "$host" iif "$port" "$@")( |\$)" | head -n 1)
    before=$((${rule%%:*} - (${rule%%:*} > 0)))
    for network in $closed; do lines+=("ip rule add to $network lookup $(table_of "$far") priority $before"); done
    verdict route "from $port it leads to ${device:-nowhere}, by the rule \"${rule//$'\t'/ }\". Add a rule before that one, \
and to where yours are kept:" "${lines[@]}"
}
counted() { # asks all counters; fails where one of them is not there
    counts=$(nft list table ip vpneval_check; nft list table netdev vpneval_check) 2> /dev/null || true
    [ "$(grep -c "packets" <<< "$counts")" = "$counters" ]
}
has() { grep -A 1 "counter $1 {" <<< "$counts" | grep -q "packets [1-9]"; } # COUNTER: has it seen a packet?
watch() { # the marker: where it comes in, leaves, and where its answer comes back
    local flags=
    if nft -c 'table ip vpneval_probe { flags owner; }' 2> /dev/null; then flags="flags owner;"; fi
    for family in ip netdev; do
        sed "s/FLAGS/$flags/; s/MARKER/$marker/; s/TCP_PORT/$tcp_port/; s/WAN_PORT/$wan_port/; s/LAN_PORT/$port/" \
            "$home/check-$family.nft" > "$work/$family.nft"
    done
    # With an owner, a firewall that is loaded anew does not take the counters away; they go with this nft.
    exec 7> >(exec nft -i > "$work/said" 2>&1)
    helpers="$helpers $!"
    printf 'include "%s"\n' "$work/ip.nft" "$work/netdev.nft" >&7
    timeout 60 nft monitor trace > "$work/trace" 2> /dev/null 7>&- &
    helpers="$helpers $!"
    again nft list table ip vpneval_check || return 1
    counters=6
    if nft list table netdev vpneval_check > /dev/null 2>&1; then counters=7; fi # Linux 5.16
}
unanswered() { [[ " $there " != *" $far "* ]]; } # what answers there, if anything does, nobody knows
send() { # from a namespace, into the LAN's port, as if a host had sent it
    ip -batch - << END
netns add vpneval-check
link add vpneval-check up address 02:00:00:00:00:01 type veth peer name eth0 netns vpneval-check
END
    ip -n vpneval-check -batch - << END
addr add $host/32 dev eth0
link set eth0 up
route add default dev eth0
neigh add $far lladdr 02:00:00:00:00:01 dev eth0
END
    tc qdisc add dev vpneval-check clsact
    tc filter add dev vpneval-check ingress protocol ip u32 match u32 0 0 action mirred ingress redirect dev "$port"
    # Many firewalls let pings through, and no TCP.
    ip netns exec vpneval-check timeout 0.3 bash -c ": < /dev/tcp/$far/$tcp_port" 2> /dev/null || true
    for _ in {1..10}; do
        ip netns exec vpneval-check ping -c 1 -W 0.3 -s 8 -p "$marker" -I "$host" "$far" > /dev/null || true
        counted || return 1
        if has answered || has bare || { unanswered && has left; }; then break; fi
    done
    has sent
}
permit() { # CHAIN: the lines of the first firewall of the table "firewalls" that has this chain, and is at work
    local chain works lines
    while IFS='|' read -r chain works lines; do
        if [[ $1 == $chain ]] && bash -c "$works" > /dev/null 2>&1; then
            lines=${lines//CHAIN/$1}
            echo "${lines//; /$'\n'}"
            return
        fi
    done < "$home/firewalls"
}
as_a_host() { # a marker that only this check knows; what a moment has lost is tried again
    local seen=
    for _ in 1 2 3; do
        clean
        work=$(mktemp -d)
        tcp_port=$((40000 + RANDOM % 9999))
        marker=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
        if ! { watch && send; } 2>> "$work/said"; then continue; fi
        seen=yes
        if has bare; then break; fi
        if { has answered || { unanswered && has left && ! grep -qE '(policy|verdict) drop' "$work/trace"; }; } &&
            { has left_tcp || ! has sent_tcp; }; then return 0; fi
    done
    if [ -z "$seen" ]; then verdict unchecked "no packet as from a host can be sent: $(head -n 1 "$work/said")." "ping $far"; fi
    judge
}
judge() { # where has the marker been?
    local dropped mark
    if has bare; then verdict bare "$wan_port"; fi
    if has answered_bare; then verdict other "answers past the tunnel."; fi
    # trace id ID FAMILY TABLE CHAIN policy drop, or: rule … (verdict drop)
    dropped=$(grep -m 1 -E '(policy|verdict) drop' "$work/trace" | cut -d' ' -f4-6) || true
    if [[ $dropped == "ip $closing "* ]]; then
        mark=$(grep -o 'meta mark 0x[0-9a-f]*' "$work/trace" | tail -n 1 | cut -d' ' -f3) || true
        route_of_hosts ${mark:+mark "$mark"}
        verdict route "nftrace says more."
    fi
    if [ -n "$dropped" ] || ! has left || ! has left_tcp; then
        mapfile -t lines < <(permit "$dropped")
        verdict firewall "${dropped:+ (chain ${dropped##* } of table ${dropped% *})}" "${lines[@]}"
    fi
    verdict other "does not answer what hosts send, only what this gateway sends."
}

# --- one after another ---

within 10 answered 2> /dev/null || true
certificates
if [ -n "$closed$closed6" ]; then
    if [ -e "$lacks" ] && ! has_nftables; then note "$without_nftables"
    elif again has_nftables; then again is_closed || verdict open "" "$start"
    else verdict unchecked "nft fails, which says whether the way past the tunnel is closed."; fi
fi
[ -z "$failed" ] || down
other_port
if [ -n "$closed" ]; then
    wan_port=$(leads_to "$to")
    port=$(ip -o addr show to "$here" | head -n 1 | cut -d' ' -f2)
    again grep -qx 1 /proc/sys/net/ipv4/ip_forward ||
        verdict forwarding "" "grep -rs ip_forward /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d"
    each_pair route_of_hosts
    if [ -e "$lacks" ]; then note "Not tried: packets as from a host. Try one: ping $far"; else each_pair as_a_host; fi
    for network in $there6; do is_tunnel "$(leads_to "$network")" || verdict ipv6 "$network" "ip -6 route get $network"; done
    networks=$(ip -6 -o route show dev "$port" proto kernel | grep -oE '^[23][0-9a-f][0-9a-f:]+/[0-9]+' | tr '\n' ' ') || true
    if [ -n "$networks" ] && [ -z "$lans6" ] && [ "$(cat /proc/sys/net/ipv6/conf/all/forwarding)" != 0 ]; then
        note "The tunnel carries IPv4 alone, and hosts here have the IPv6 networks ${networks% }: what the other site sends \
there goes past the tunnel, in the clear. Add network_ipv6 of both sites to sites.toml, make the recipe anew, and replace \
this tunnel by it."
    fi
    saved=$(grep -lrs "vpneval_closed" /etc/nftables.conf /etc/nftables.d /etc/sysconfig/nftables.conf | head -n 1) || true
    [ -z "$saved" ] || verdict saved "$saved" "nft -c -f $saved"
fi
verdict up ""
