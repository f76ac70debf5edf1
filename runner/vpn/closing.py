"""What a gateway's scripts load or read as it is: nftables rules and routes.

The functions of gateway/functions.sh load the closing: for TABLE they put the table's name, for FLAGS its owner, and
for OUTSIDE the ports that lead out of the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from runner.lab.shape.site import Site

CLOSED = """\
# Only the tunnel leads to {others}, and only what is between them and {own} goes into it or comes out of it.
add table {family} TABLE {{ FLAGS }}
flush table {family} TABLE
table {family} TABLE {{
    FLAGS
    # What leaves: after every NAT, so that the packet is what leaves.
    chain past {{
        type filter hook postrouting priority 200;
        {family} daddr != {others} accept
{out}        counter drop
    }}
    # What is forwarded: a host of another network stays out, since its answers would leave in the clear.
    chain between {{
        type filter hook forward priority 0;
{between}    }}
    # What is for this gateway itself.
    chain to_me {{
        type filter hook input priority 0;
{to_me}    }}
}}
"""
# The first NAT of a connection decides, and this one, which is the first, leaves it as it is. A connection that a NAT
# has changed before begins anew, in a zone of its own.
WHOLE = """\
# No NAT of the gateway changes what is between {own} and {others}. In a zone of its own (conntrack), no entry is there
# that a NAT has made before. What the gateway itself sends by the tunnel has its address in {seen}.
table {family} TABLE {{
    FLAGS
    chain whole {{
        type nat hook postrouting priority -199;
        {family} saddr {seen} {family} daddr {others} snat to {family} saddr
        {family} saddr {others} {family} daddr {own} snat to {family} saddr
{itself}    }}
{translated}    chain zone {{
        type filter hook prerouting priority -300;
        {family} saddr {own} {family} daddr {others} ct zone set 9999
        {family} saddr {others} {family} daddr {seen} ct zone set 9999
{errors}    }}
    chain zone_of_own {{
        type filter hook output priority -300;
        {family} daddr {others} ct zone set 9999
{back}    }}
}}
"""
# nft(8), "NAT statements": with a map of prefixes, the host's part of each address stays.
SEEN_AS = "{family} daddr {others} snat {family} prefix to {family} saddr map {{ {map} }}"
TRANSLATED = """\
    # The other site has other addresses for the hosts here.
    chain translated {{
        type nat hook prerouting priority -199;
        {family} saddr {others} dnat {family} prefix to {family} daddr map {{ {map} }}
    }}
"""
# Routers at the border of a site drop these (RFC 4193, 4.3). What others have in IPsec is theirs.
PRIVATE = """\
# Hosts' private IPv6 (RFC 4193) does not go by the Internet: not to the other site, and not from there.
add table ip6 TABLE {{ FLAGS }}
add chain ip6 TABLE private {{ type filter hook forward priority 0; }}
flush chain ip6 TABLE private
add rule ip6 TABLE private oifname {{ OUTSIDE }} {between} rt ipsec missing counter drop
add rule ip6 TABLE private iifname {{ OUTSIDE }} {between} meta ipsec missing counter drop
""".format(between="ip6 saddr fc00::/7 ip6 daddr fc00::/7")
# nft -D segment=BYTES -D segment6=BYTES
CLAMP = """\
# TCP between the sites sends segments that fit into the tunnel.
add table {family} vpneval_tunnel_@NAME@
delete table {family} vpneval_tunnel_@NAME@
table {family} vpneval_tunnel_@NAME@ {{
    chain forward {{
        type filter hook forward priority mangle;
        {family} daddr {others} tcp flags & (syn | rst) == syn tcp option maxseg size set {segment}
        {family} saddr {others} tcp flags & (syn | rst) == syn tcp option maxseg size set {segment}
    }}
}}
"""
# What check.sh sends as a host: a ping with a marker of 8 bytes, and the first packet of a connection.
MARKER = "icmp type echo-request @th,64,64 0xMARKER"
CHECK = """\
# Where do the packets of a check come in, leave, and where do their answers come back?
table ip vpneval_check {{
    FLAGS
    counter sent {{}}
    counter left {{}}
    counter sent_tcp {{}}
    counter left_tcp {{}}
    counter answered {{}}
    counter answered_bare {{}}
    chain prerouting {{
        type filter hook prerouting priority -310;
        iifname "LAN_PORT" ip daddr {far} {marker} counter name sent meta nftrace set 1
        iifname "LAN_PORT" ip daddr {far} tcp dport TCP_PORT counter name sent_tcp meta nftrace set 1
{answered}        ip saddr {far} {answer} counter name answered_bare
    }}
    chain postrouting {{
        type filter hook postrouting priority 190;
        ip daddr {far} {marker} counter name left
        ip daddr {far} tcp dport TCP_PORT counter name left_tcp
    }}
}}
"""
CHECK_BARE = """\
# Do the packets of a check leave in the clear?
table netdev vpneval_check {{
    FLAGS
    counter bare {{}}
    chain egress {{
        type filter hook egress device "WAN_PORT" priority 0;
        ip daddr {far} {marker} counter name bare
    }}
}}
"""
ERRORS = {
    "ip": "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
    "ip6": "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
}


def rules(
    family: str,
    own: Sequence[str],
    here: str,
    others: Sequence[str],
    devices: Sequence[str],
    *,
    carried: bool = True,
    seen_as: Sequence[str] = (),
) -> dict[str, str]:
    """The files of a family, ``ip`` or ``ip6``: name -> text. ``own``: the networks here; ``seen_as``: what the others
    have in their place, where that is not the same; in one the gateway has the address ``here``; ``others``: those that
    only the tunnel may lead to; ``devices``: the tunnel's, none where it is IPsec in the kernel; ``carried``: whether
    it carries this family at all."""
    ours, theirs, error = f"{{ {', '.join(own)} }}", f"{{ {', '.join(others)} }}", f"{ERRORS[family]} accept"
    seen, both = (f"{{ {', '.join(dict.fromkeys(networks))} }}" for networks in (seen_as or own, (*seen_as, *own)))
    into = [f'oifname "{device}"' for device in devices] or ["rt ipsec exists"]
    out_of = [f'iifname "{device}"' for device in devices] or ["meta ipsec exists"]
    between, to_me, out = list[str](), list[str](), list[str]()
    itself, errors, back = list[str](), list[str](), list[str]()
    if carried:
        out = _rules_of(into, f"{family} saddr {seen} {family} daddr {theirs} accept", error)
        between = _rules_of(out_of, f"{family} saddr {theirs} {family} daddr {ours} accept", error)
        between += _rules_of(into, f"{family} saddr {ours} {family} daddr {theirs} accept", error)  # not yet translated
        to_me = _rules_of(out_of, f"{family} saddr {theirs} accept", error)
        # What IPsec in the kernel carries, its own policies say; others may be here, too. A tunnel's own addresses are
        # no part of the networks.
        if devices:
            between += _rules_of([*out_of, *into], "counter drop")
            to_me += _rules_of(out_of, f"{family} daddr {ours} counter drop")
            itself = _rules_of(into, f"{family} saddr != {both} {family} daddr {theirs} snat to {here}")
    for chain in (between, to_me):
        chain.append(f"{family} saddr {theirs} counter drop")
    words = {"family": family, "own": ours, "others": theirs, "seen": seen, "translated": ""}
    if seen_as:
        # Errors: some have a tunnel's own address, and the kernel's IPsec sends its own after the translation.
        back = [f"{family} daddr {network} ct zone set 9999" for network in seen_as if network not in own]
        errors = _rules_of(out_of, *back)
        itself.insert(0, SEEN_AS.format(**words, map=_map(own, seen_as)))
        words["translated"] = TRANSLATED.format(**words, map=_map(seen_as, own))
    chains = {"out": out, "between": between, "to_me": to_me, "itself": itself, "errors": errors, "back": back}
    lines = {name: _lines(chain) for name, chain in chains.items()}
    texts = {"closed": CLOSED, "whole": WHOLE} if carried else {"closed": CLOSED}
    return {f"{name}-{family}.nft": text.format(**words, **lines) for name, text in texts.items()}


def clamp(others: Mapping[str, Sequence[str]]) -> str:
    """The rules that shorten TCP's segments. ``others``: the networks of the other sites by their family."""
    segment = {"ip": "$segment", "ip6": "$segment6"}
    return "".join(
        CLAMP.format(family=family, others=f"{{ {', '.join(networks)} }}", segment=segment[family])
        for family, networks in others.items()
    )


def routes(closed: Sequence[str], closed6: Sequence[str], devices: Sequence[str], translated: Sequence[str]) -> str:
    """For ``ip -batch``: nothing leads to these networks but the tunnel. Without ``devices`` it is IPsec of the kernel:
    what a NAT has made another packet of asks the policies anew. ``translated``: networks here that become others
    after they have asked for the first time."""
    lines = [f"route add unreachable {network} metric 9999\n" for network in (*closed, *closed6)]
    if not devices:
        blocked = "xfrm policy add src 0.0.0.0/0 dst {} dir out priority 4000000000 action block\n"
        lines += [blocked.format(network) for network in closed]
        passed = "xfrm policy add src {} dst {} dir out priority 3999999999 action allow\n"
        lines += [passed.format(own, network) for own in translated for network in closed]
    return "".join(lines)


def inner_routes(me: Site, peer: Site) -> str:
    """For ``ip -batch``: IPv6 to a peer's network by the tunnel's DEVICE. A next hop is for an Ethernet; others ignore
    it."""
    hop = f"via fe80::{peer.number} dev DEVICE src {me.lan_address_ipv6}"
    routes = "".join(f"route replace {lan} {hop}\n" for lan in peer.lans_ipv6)
    return f"addr add fe80::{me.number}/64 dev DEVICE nodad\n{routes}"


def checks(fars: Sequence[str], devices: Sequence[str]) -> dict[str, str]:
    """The rules by which check.sh sees its own packets to ``fars``: name -> text. It puts the marker, the ports and the
    owner in."""
    far = fars[0] if len(fars) == 1 else f"{{ {', '.join(fars)} }}"
    answer = MARKER.replace("request", "reply")
    out_of = [f'iifname "{device}"' for device in devices] or ["meta ipsec exists"]
    answered = _lines(f"{way} ip saddr {far} {answer} counter name answered accept" for way in out_of)
    return {
        "check-ip.nft": CHECK.format(far=far, marker=MARKER, answer=answer, answered=answered),
        "check-netdev.nft": CHECK_BARE.format(far=far, marker=MARKER),
    }


def _map(networks: Sequence[str], others: Sequence[str]) -> str:
    return ", ".join(f"{network} : {other}" for network, other in zip(networks, others, strict=True))


def _rules_of(ways: Iterable[str], *what: str) -> list[str]:
    """A rule for each of the ``ways``, and of what is to happen there."""
    return [f"{way} {one}" for way in ways for one in what]


def _lines(found: Iterable[str]) -> str:
    return "".join(f"        {rule}\n" for rule in found)
