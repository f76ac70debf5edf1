"""The OSLV paper's tables on security and operation, as printed and as judged today."""

from __future__ import annotations

import ast
import json
import re
from fractions import Fraction
from functools import cache
from typing import Any

from runner.data.errors import UsageError
from runner.data.shipped import shipped_folder

TABLES = shipped_folder("published") / "oslv_tables.json"
SIZES = (2, 3, 5, 10, 20)  # sites of a full mesh
AT = 10  # the paper's example
# The paper's systems that live, and the plugin that stands for each in every judge and table: itself, or its heir. Two
# daemons began as FreeS/WAN: Libreswan still has its pluto, strongSwan has written its own. Both leave packets to the
# kernel's ESP, which took the place of FreeS/WAN's module. strongSwan, which is in every image, is its heir here.
HEIRS = {
    "PPP_over_SSH": "ppp_ssh",
    "Stunnel": "ppp_stunnel",
    "PPTP": "pptp",
    "L2tpd": "l2tp",
    "OpenVPN": "openvpn",
    "VTUN": "vtun",
    "VTUN_PPP": "vtun_ppp",
    "Tinc": "tinc",
    "FreeS/Wan": "ipsec",
}
# The paper's system for a plugin of the same protocol, by the beginning of the plugin's name, the longest first.
OF_THE_PAPER = {
    "ppp_ssh": "PPP_over_SSH",
    "ppp_stunnel": "Stunnel",
    "stunnel": "Stunnel",
    "openvpn": "OpenVPN",
    "vtun_ppp": "VTUN_PPP",
    "vtun": "VTUN",
    "tinc": "Tinc",
    "pptp": "PPTP",
    "l2tp": "L2tpd",
    "ipsec": "FreeS/Wan",
    "libreswan": "FreeS/Wan",
}


@cache
def tables() -> dict[str, Any]:
    """The OSLV paper's tables 1 to 5 as printed (results/published/oslv_tables.json)."""
    read: dict[str, Any] = json.loads(TABLES.read_text())
    return read


def printed_tables(plugin: str) -> dict[str, dict[str, Any]]:
    """What the paper says of the system of a plugin's protocol; empty for one that it does not have."""
    system = next((name for start, name in OF_THE_PAPER.items() if plugin.startswith(start)), "")
    if not system:
        return {"setup": {}, "modularity": {}, "routing": {}, "scalability": {}}
    row = {n: tables()[f"table_{n}"]["rows"].get(system) for n in (1, 2, 3)}
    return {
        "setup": {"paper_system": system, "paper_asterisks": row[1][-1]},
        "modularity": {"paper_system": system, "paper_difficulty": row[2][0]},
        "routing": {"paper_system": system, "paper_routing": " - ".join(row[3])},
        "scalability": {"paper_system": system, "paper": paper_effort("VTUN_*" if "VTUN" in system else system)},
    }


def paper_security(plugin: str) -> dict[str, bool]:
    """The paper's Table 4 for the system of a plugin's protocol: column -> yes or no. Empty for what it does not list,
    as everything by an open standard, which it calls implicitly secure."""
    system = next((name for start, name in OF_THE_PAPER.items() if plugin.startswith(start)), "")
    table = tables()["table_4"]
    row = table["rows"].get(system, [])
    return dict(zip(table["columns"], row, strict=False))


def paper_effort(system: str) -> dict[str, Any]:
    """A row of Table 5 as printed, and recomputed from its own cells; what differs is marked [sic]."""
    files, routes, keys, total, at_10 = tables()["table_5"]["rows"][system]
    recomputed = {n: n * sum(value(cell, n) for cell in (files, routes, keys)) for n in SIZES}
    return {
        "files": files,
        "routes": routes,
        "keys": keys,
        "total": total + ("" if value(total, AT) == recomputed[AT] else " [sic]"),
        "printed_at_10": f"{at_10}" + ("" if at_10 == recomputed[AT] else " [sic]"),
        "recomputed": {str(n): int(effort) for n, effort in recomputed.items()},
    }


def value(formula: str, n: int) -> Fraction:
    """What a formula of Table 5 comes to: ``2(N-1)``, ``N(2.5N)``, or nothing for an empty cell.

    Raises UsageError for anything that is not numbers, N, sums, differences and products.
    """
    if not formula:
        return Fraction(0)
    explicit = re.sub(r"(?<=[\dN)])(?=[N(])", "*", formula)

    def evaluate(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() | float() as number):
                return Fraction(str(number))
            case ast.Name(id="N"):
                return Fraction(n)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return evaluate(left) + evaluate(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return evaluate(left) - evaluate(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return evaluate(left) * evaluate(right)
        raise UsageError(f"{formula!r} is not a formula in N")

    return evaluate(ast.parse(explicit, mode="eval").body)
