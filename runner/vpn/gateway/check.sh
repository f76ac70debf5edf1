#!/bin/bash
# Does the tunnel carry what hosts send, and does nothing go past it? If not, it says the first cause, and the lines that
# help. Run it as root; --json says the same to a program. It changes nothing that stays, and ends with
#   0  up                           5  a certificate, or the clock    10  packets leave in the clear
#   1  it is not set up here        6  forwarding is off              11  the other gateway's side
#   2  it could not be checked      7  no answer                      12  IPv6 does not enter the tunnel
#   3  the way past it is open      8  hosts' packets do not enter    13  a saved ruleset has the closing in it
#   4  it does not run              9  a firewall here drops them
# shellcheck disable=SC1090,SC1091,SC2046,SC2086,SC2154,SC2317 # gateway.sh has values and lists, which are split into words
set -eEu
PATH="$PATH:/usr/sbin:/sbin"
form=${1-} name=${PWD##*/} said='' notes=() work='' helpers=''

quoted() { # a text as JSON has it
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    echo -n "\"${text//[[:cntrl:]]/ }\""
}
listed() { local text sep=; for text; do echo -n "$sep$(quoted "$text")"; sep=', '; done; }
note() { # SENTENCE LINE…: what is not wrong, and an operator has to know
    local line text=$1
    shift
    for line; do text="$text
    $line"; done
    notes+=("$text")
}
verdict() { # CODE CAUSE SENTENCE LINE…: the one of this check
    local code=$1 cause=$2 text=$3
    said=yes
    shift 3
    if [ "$form" = --json ]; then
        echo "{\"tunnel\": $(quoted "$name"), \"code\": $code, \"cause\": $(quoted "$cause"), \"text\": $(quoted "$text")," \
            "\"lines\": [$(listed "$@")], \"notes\": [$(listed ${notes[@]+"${notes[@]}"})]}"
    else
        [ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
        if [ "$code" = 0 ]; then echo "$text"; else echo "$text" >&2; fi
        [ $# = 0 ] || printf '    %s\n' "$@" >&2
    fi
    exit "$code"
}
finish() { # no end without a verdict
    clean
    [ -n "$said" ] || verdict 2 unchecked "check.sh itself ended early (line ${at-?})."
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

# --- is it set up here? ---

case $#,$form in 0, | 1,--json) ;; *) verdict 1 called "$0 was called with: $*. Call it with nothing, or with --json." ;; esac
if [ "$(id -u)" != 0 ]; then verdict 1 root "$0 needs root. Run it as: sudo $0"; fi
if [ -z "${vpneval_checks-}" ]; then # one check at a time: they would count each other's packets
    code=0
    vpneval_checks=yes flock --close --timeout 300 --conflict-exit-code 200 /run/vpneval-check.lock "$0" "$@" || code=$?
    [ "$code" != 200 ] || verdict 2 busy "Other checks have not ended within 300 s."
    exit "$code"
fi
cd "$(dirname "$0")"
name=${PWD##*/}
if [ -d files ]; then name=$(ls files/etc/vpneval); fi
for inner in */up.sh; do if [ -e "$inner" ]; then name="${inner%/up.sh}, which was copied into $PWD"; fi; done
[ -e "/etc/vpneval/$name/gateway.sh" ] || verdict 1 absent "The tunnel $name is not set up here."
. "/etc/vpneval/$name/functions.sh"
set +f
trap finish EXIT
trap 'at=$LINENO' ERR
clean # what a check that was killed has left
far=${there%% *}
again() { # beside a firewall that is loaded anew
    for _ in {1..8}; do if "$@"; then return 0; fi; sleep 0.3; done
    return 1
}

# --- do the gateways reach each other? ---

answered() { # sets failed
    local address port
    for address in $there $there6; do
        failed="no answer from $address to a ping from ${here}${here6:+ or $here6}"
        if [[ $address == *:* ]]; then ping -c 1 -W 1 -I "$here6" "$address" > /dev/null 2>&1 || return 1
        else ping -c 1 -W 1 -I "$here" "$address" > /dev/null 2>&1 || return 1; fi
    done
    for port in $listens; do
        failed="nothing listens on TCP port $port"
        if ! ss -Hltn "sport = :$port" | grep -q .; then return 1; fi
    done
}

certificates() { # sets ended to what is wrong with one; says the days of one that ends soon
    local file from until now
    ended=
    now=$(date +%s)
    for file in $(xargs grep -ls '^-----BEGI[N] CERTIFICATE' < "/var/lib/vpneval/$name"); do
        from=$(date -d "$(openssl x509 -noout -startdate -in "$file" 2> /dev/null | cut -d= -f2)" +%s 2> /dev/null) || continue
        until=$(date -d "$(openssl x509 -noout -enddate -in "$file" 2> /dev/null | cut -d= -f2)" +%s)
        if [ "$now" -lt "$from" ]; then
            ended="the clock says $(date -I), and the certificate $file is valid from $(date -I -d "@$from") on"
        elif [ "$now" -ge "$until" ]; then ended="the certificate $file ended on $(date -I -d "@$until") (this clock: $(date -I))"
        elif [ $((until - now)) -lt $((30 * 86400)) ]; then
            note "The certificate $file ends in $(((until - now) / 86400)) days. Make the recipe anew, and replace this tunnel."
        fi
    done
}

down() {
    local outside="answers pings" messages
    [ -z "$ended" ] || verdict 5 certificate "The tunnel is down: $ended."
    is_running "vpneval-tunnel@$name" || verdict 4 stopped "The tunnel is down: its unit does not run." "$start"
    ping -c 1 -W 1 "${wan%% *}" > /dev/null 2>&1 || outside="does not answer pings"
    if [ -d /run/systemd/system ]; then messages=$(journalctl --no-pager --unit "vpneval-tunnel@$name" --lines 20)
    else messages=$(tail -n 20 "/var/log/vpneval-tunnel@$name.log" || true); fi
    [ "$form" = --json ] || echo "The last messages here:
$messages" >&2
    verdict 7 no_answer "The tunnel is down: $failed. The other gateway's WAN address ${wan%% *} $outside."
}

other_line() { # by which port do the tunnel's packets leave, where the route to the other gateway is not that of $own?
    local measured peer=${wan%% *} via before text
    measured=$(ip -o addr show to "$own" | head -n 1 | cut -d' ' -f2)
    if [ -z "$measured" ]; then
        note "This gateway no longer has the address $own of the recipe."
        return
    fi
    if [ "$measured" = lo ] || [ "$(leads_to "$peer")" = "$measured" ]; then return; fi
    before=$(cat "/sys/class/net/$measured/statistics/tx_packets")
    ping -q -c 10 -i 0.2 -W 1 -I "$here" "${there%% *}" > /dev/null || true
    # Some VPNs send from the address of the recipe, and so by its port.
    if [ $(($(cat "/sys/class/net/$measured/statistics/tx_packets") - before)) -ge 10 ]; then return; fi
    via=$(ip "-$version" route show table all default dev "$measured" | grep -o 'via [^ ]*' | head -n 1)
    text="The tunnel's packets leave by $(leads_to "$peer"). The recipe is for $measured, which has $own"
    # A line that is dead now would take the tunnel with it.
    if ping -c 2 -W 1 -I "$own" -I "$measured" "$peer" > /dev/null 2>&1; then
        note "$text. To send them there:" "ip route replace $peer ${via:+$via }dev $measured"
    else note "$text and by which the other gateway does not answer pings now."; fi
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
    verdict 8 route "What hosts send from $port to $lans does not enter the tunnel: it leads to ${device:-nowhere}, by the \
rule \"${rule//$'\t'/ }\". It is dropped. Add a rule before that one, and to where yours are kept:" \
        "ip rule add to $closed lookup $(table_of "$far") priority $number"
}

watch() { # for the marker: where it comes in, leaves, and where its answer comes back
    local of="icmp type echo-request @th,64,64 0x$marker" answer="icmp type echo-reply @th,64,64 0x$marker" flags=
    if nft -c 'table ip vpneval_probe { flags owner; }' 2> /dev/null; then flags="flags owner"; fi
    cat > "$work/bare.nft" << END
table netdev vpneval_check {
    $flags
    counter bare {}
    chain egress {
        type filter hook egress device "$wan_port" priority 0;
        ip daddr $far $of counter name bare
    }
}
END
    cat > "$work/watch.nft" << END
table ip vpneval_check {
    $flags
    counter sent {}
    counter left {}
    counter sent_tcp {}
    counter left_tcp {}
    counter answered {}
    counter answered_bare {}
    chain prerouting {
        type filter hook prerouting priority -310;
        iifname "$port" ip daddr $far $of counter name sent meta nftrace set 1
        iifname "$port" ip daddr $far tcp dport $tcp_port counter name sent_tcp meta nftrace set 1
$(in_tunnel "" | sed "s/^oifname/iifname/; s/^rt ipsec/meta ipsec/; s|\$|ip saddr $far $answer counter name answered accept|")
        ip saddr $far $answer counter name answered_bare
    }
    chain postrouting {
        type filter hook postrouting priority 190;
        ip daddr $far $of counter name left
        ip daddr $far tcp dport $tcp_port counter name left_tcp
    }
}
END
    # With an owner, a firewall that is loaded anew does not take the counters away; they go with this nft.
    exec 7> >(exec nft -i > "$work/nft" 2>&1)
    helpers="$helpers $!"
    printf 'include "%s"\n' "$work/bare.nft" "$work/watch.nft" >&7
    timeout 60 nft monitor trace > "$work/trace" 2> /dev/null 7>&- &
    helpers="$helpers $!"
    again nft list table ip vpneval_check > /dev/null 2>&1 || return 1
    egress=
    if nft list table netdev vpneval_check > /dev/null 2>&1; then egress=bare; fi
}

counters() { # one variable for each; fails where one of them is not there
    local listed name value
    listed=$(nft list table ip vpneval_check; [ -z "$egress" ] || nft list table netdev vpneval_check) 2> /dev/null || return 1
    bare=0
    for name in sent left sent_tcp left_tcp answered answered_bare $egress; do
        value=$(grep -A 1 "counter $name {" <<< "$listed" | grep -o 'packets [0-9]*') || return 1
        printf -v "$name" %d "${value#packets }"
    done
}

send() { # from a namespace, into the LAN's port, as if a host had sent it
    local mac
    ip netns add vpneval-check &&
        ip link add vpneval-check type veth peer name eth0 netns vpneval-check &&
        mac=$(cat /sys/class/net/vpneval-check/address) &&
        ip link set vpneval-check up &&
        ip -n vpneval-check addr add "$host/32" dev eth0 &&
        ip -n vpneval-check link set eth0 up &&
        ip -n vpneval-check route add default dev eth0 &&
        ip -n vpneval-check neigh add "$far" lladdr "$mac" dev eth0 &&
        tc qdisc add dev vpneval-check clsact &&
        tc filter add dev vpneval-check ingress protocol ip u32 match u32 0 0 action mirred ingress redirect dev "$port" ||
        return 1
    # Many firewalls let pings through, and no TCP.
    ip netns exec vpneval-check timeout 0.3 bash -c ": < /dev/tcp/$far/$tcp_port" 2> /dev/null || true
    for _ in {1..10}; do
        ip netns exec vpneval-check ping -c 1 -W 0.3 -s 8 -p "$marker" -I "$host" "$far" > /dev/null || true
        counters || return 1
        if [ "$answered" != 0 ] || [ "$bare" != 0 ]; then break; fi
    done
    [ "$sent" != 0 ]
}

permit() { # the lines that let the sites' packets through the chain that has dropped one: FAMILY TABLE CHAIN
    local from iptables=iptables
    case $* in
        "" | "ip filter"*)
            # What drops and is not of nftables, is of the older iptables.
            if [ -z "$*" ] && command -v iptables-legacy > /dev/null; then iptables="iptables-legacy"; fi
            for from in "$lan $closed" "$closed $lan"; do
                set -- $from
                if command -v ufw > /dev/null && ufw status 2> /dev/null | grep -q "Status: active"; then
                    echo "ufw route allow from $1 to $2"
                elif $iptables -n -L DOCKER-USER > /dev/null 2>&1; then echo "$iptables -I DOCKER-USER -s $1 -d $2 -j ACCEPT"
                else echo "$iptables -I FORWARD -s $1 -d $2 -j ACCEPT"; fi
            done
            ;;
        *" firewalld "*) # a policy is asked only about what comes from or goes to a zone that has a port or a source
            set -- "firewall-cmd --permanent"
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

as_a_host() { # a marker that only this check knows; what a moment has lost is tried again
    local sent left sent_tcp left_tcp answered answered_bare bare egress seen=
    for _ in 1 2 3; do
        clean
        work=$(mktemp -d)
        tcp_port=$((40000 + RANDOM % 9999))
        marker=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
        if ! { watch && send; } 2> "$work/said"; then continue; fi
        seen=yes
        if [ "$bare" != 0 ]; then break; fi
        if [ "$answered" != 0 ] && { [ "$left_tcp" != 0 ] || [ "$sent_tcp" = 0 ]; }; then return 0; fi
    done
    if [ -z "$seen" ]; then
        verdict 2 unchecked "Packets as from a host could not be tried ($(head -qn 1 "$work/said" "$work/nft" | head -n 1))." "ping $far"
    fi
    judge
}

judge() { # where has the marker been?
    local dropped mark
    [ "$bare" = 0 ] || verdict 10 bare "Packets to $lans leave $wan_port in the clear."
    [ "$answered_bare" = 0 ] || verdict 11 other "The other gateway's answers come past the tunnel. Run check.sh there."
    # trace id ID FAMILY TABLE CHAIN policy drop, or: rule … (verdict drop)
    dropped=$(grep -m 1 -E '(policy|verdict) drop' "$work/trace" | cut -d' ' -f4-6) || true
    if [[ $dropped == "ip $closing "* ]]; then
        mark=$(grep -o 'meta mark 0x[0-9a-f]*' "$work/trace" | tail -n 1 | cut -d' ' -f3)
        route_of_hosts ${mark:+mark "$mark"}
        verdict 8 route "What hosts send to $lans does not enter the tunnel, and is dropped."
    elif [ -n "$dropped" ] || [ "$left" = 0 ] || [ "$left_tcp" = 0 ]; then
        mapfile -t lines < <(permit $dropped)
        verdict 9 firewall "This gateway's firewall drops what hosts send to the other site${dropped:+ (chain \
${dropped##* } of table ${dropped% *})}. Let it through, and write the lines to where your firewall keeps its own:" "${lines[@]}"
    fi
    verdict 11 other "The other gateway does not answer what hosts send, only what $here sends. Run check.sh there."
}

ipv6() { # of the hosts, by which they may reach the other site without the tunnel
    local network networks
    for network in $there6; do
        is_tunnel "$(leads_to "$network")" || [ -z "$tunnel" ] ||
            verdict 12 ipv6 "IPv6 to $network does not lead into the tunnel, and is dropped." "ip -6 route get $network"
    done
    if [ -n "$lans6" ] || [ "$(cat /proc/sys/net/ipv6/conf/all/forwarding 2> /dev/null || echo 0)" = 0 ]; then return 0; fi
    networks=$(ip -6 -o route show dev "$port" proto kernel | grep -oE '^[23f][0-9a-d][0-9a-f:]+/[0-9]+' | tr '\n' ' ')
    [ -z "$networks" ] || note "The tunnel carries IPv4 alone, and hosts here have the IPv6 networks ${networks% }: what the other site sends there \
goes past the tunnel, in the clear. Add network_ipv6 of both sites to sites.toml, make the recipe anew, and replace this \
tunnel by it."
}

# --- what is said ---

if [ -d /run/systemd/system ]; then start="systemctl restart vpneval-closed@$name vpneval-tunnel@$name"; else start="up.sh"; fi
if [ -n "$closed" ] && again has_nftables; then
    again is_closed ip || verdict 3 open "The way past the tunnel is open: the table ip $closing is not there. Start it:" "$start"
    [ -z "$closed6" ] || again is_closed ip6 ||
        verdict 3 open "The way past the tunnel is open for IPv6: the table ip6 $closing is not there. Start it:" "$start"
elif [ -n "$closed" ]; then
    note "$without_nftables"
fi
for _ in {1..10}; do
    if answered; then failed=; break; fi
    sleep 1
done
certificates
[ -z "$failed" ] || down
other_line
if [ -n "$closed" ]; then
    wan_port=$(leads_to "${wan%% *}")
    port=$(ip -o addr show to "$here" | head -n 1 | cut -d' ' -f2)
    again forwards || verdict 6 forwarding "This gateway forwards nothing: somebody turns net.ipv4.ip_forward off." \
        "grep -rs ip_forward /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d"
    if ! nft list chain ip "$closing" whole 2> /dev/null | grep -q snat; then
        note "A NAT of this gateway must leave out what is between the sites. If it has one, add before the NAT's rule:" \
            "iptables -t nat -I POSTROUTING -s $lan -d $closed -j ACCEPT"
    fi
    if is_tunnel "$(leads_to "$far")"; then route_of_hosts; fi
    if again has_nftables; then as_a_host; else note "Not tried: packets as from a host. Try one: ping $far"; fi
    ipv6
    saved=$(grep -ls "vpneval_closed" /etc/nftables.conf /etc/nftables.d/* /etc/sysconfig/nftables.conf | head -n 1) || true
    [ -z "$saved" ] || verdict 13 saved "The tunnel is up, but $saved has the table $closing in it, which only its unit can \
change: the next start of nftables will fail, and leave this gateway without your firewall. Remove from $saved each table \
whose name begins with vpneval_. This line says whether it loads then:" "nft -c -f $saved"
fi
verdict 0 up "The tunnel is up."
