"""The nftables rules that close the way past a deployed tunnel, for one family of addresses.

The functions of gateway/functions.sh load them: for TABLE they put the table's name, for FLAGS its owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    # What is forwarded: an answer to who is of neither network would leave in the clear.
    chain between {{
        type filter hook forward priority 0;
{between}    }}
    # What is for this gateway itself.
    chain to_me {{
        type filter hook input priority 0;
        {family} saddr != {others} accept
{come}        counter drop
    }}
}}
"""
# The first NAT of a connection decides, and this one, which is the first, leaves it as it is. A connection that a NAT
# has changed before begins anew, in a zone of its own.
WHOLE = """\
# No NAT of the gateway changes what is between {own} and {others}.
table {family} TABLE {{
    FLAGS
    chain whole {{
        type nat hook postrouting priority -199;
        {family} saddr {own} {family} daddr {others} snat to {family} saddr
        {family} saddr {others} {family} daddr {own} snat to {family} saddr
    }}
    chain zone {{
        type filter hook prerouting priority -300;
        {family} saddr {own} {family} daddr {others} ct zone set 9999
        {family} saddr {others} {family} daddr {own} ct zone set 9999
    }}
    chain zone_of_own {{
        type filter hook output priority -300;
        {family} saddr {own} {family} daddr {others} ct zone set 9999
        {family} saddr {others} {family} daddr {own} ct zone set 9999
    }}
}}
"""
ERRORS = {
    "ip": "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
    "ip6": "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
}


def rules(
    family: str, own: str, others: Sequence[str], devices: Sequence[str], *, carried: bool = True
) -> dict[str, str]:
    """The files of a family, ``ip`` or ``ip6``: name -> text. ``own``: the network here; ``others``: those that only
    the tunnel may lead to; ``devices``: the tunnel's, none where it is IPsec in the kernel; ``carried``: whether it
    carries this family at all."""
    words = {"family": family, "own": f"{{ {own} }}", "others": f"{{ {', '.join(others)} }}"}
    into = [f'oifname "{device}"' for device in devices] or ["rt ipsec exists"]
    out_of = [f'iifname "{device}"' for device in devices] or ["meta ipsec exists"]
    there = "{family} saddr {own} {family} daddr {others}".format_map(words)
    back = "{family} saddr {others} {family} daddr {own}".format_map(words)
    between = []
    if carried:
        between += [f"{way} {what} accept" for way in out_of for what in (back, ERRORS[family])]
        between += [f"{way} {what} accept" for way in into for what in (there, ERRORS[family])]
        # What IPsec in the kernel carries, its own policies say; others may be here, too.
        between += [f"{way} counter drop" for way in (*out_of, *into) if devices]
    between.append(f"{family} saddr {words['others']} counter drop")
    found = {
        "closed": CLOSED.format(
            **words,
            out=_lines(f"{way} accept" for way in into if carried),
            come=_lines(f"{way} accept" for way in out_of if carried),
            between=_lines(between),
        )
    }
    if carried:
        found["whole"] = WHOLE.format(**words)
    return {f"{name}-{family}.nft": text for name, text in found.items()}


def _lines(found: Iterable[str]) -> str:
    return "".join(f"        {rule}\n" for rule in found)
