"""How a VPN stands to a must, as a sentence, and the command that shows what nobody has tried."""

from __future__ import annotations

from runner.choice.model import State
from runner.data.named import Must

# Must -> what follows the VPN's name where it fulfils it, and where it does not.
PHRASES: dict[Must, tuple[str, str]] = {
    "networks": ("joins the sites' networks", "does not join the sites' networks"),
    "ipv6-inside": ("carries IPv6 between the sites", "does not carry IPv6 between the sites"),
    "ipv6-path": ("travels over an IPv6 path", "does not travel over an IPv6 path"),
    "udp-blocked": ("passes where UDP is blocked", "does not pass where UDP is blocked"),
    "nat": ("works through a NAT", "does not work through a NAT"),
    "no-fixed-address": (
        "comes back after a gateway's address changed",
        "does not come back after the address changed",
    ),
    "kernel": ("works on packets in the kernel", "does not work on packets in the kernel"),
    "post-quantum": ("has a post-quantum key exchange", "has no post-quantum key exchange"),
    "certificates": ("authenticates by certificates", "is not set up with certificates"),
    "approved": ("uses permitted cryptography only", "uses cryptography that is not permitted"),
    "forward-secrecy": ("has forward secrecy", "has no forward secrecy"),
    "fail-closed": ("sends nothing in the clear when it is down", "sends traffic in the clear when it is down"),
    "ethernet": ("carries Ethernet", "does not carry Ethernet as it is set up here"),
    "multicast": ("carries multicast", "does not carry multicast"),
    "mesh": ("joins three sites and more", "does not join three sites"),
    "standard": ("speaks a standard protocol", "speaks a protocol of its own"),
    "tried": ("was tried under attack and over a narrow path", "was not tried"),
    "maintained": ("is maintained", "is not maintained any more"),
}
# What no lab on one machine has.
ON_A_PATH: tuple[Must, ...] = ("nat",)
# What a plugin declares and no trial shows.
BY_DECLARATION: tuple[Must, ...] = (
    *("certificates", "forward-secrecy", "ethernet", "multicast", "standard", "maintained"),
)


def sentence(vpn: str, must: Must, state: State) -> str:
    """One sentence: who does what, and how that is known."""
    can, cannot = PHRASES[must]
    if state.word == "unknown":
        if must == "tried":
            return f"{vpn} {cannot}: nobody has attacked it, and sent it over a narrow path."
        return f"It is not known whether {vpn} {can}{_why_unknown(must, state)}."
    said = f"{vpn} {can if state.word == 'shown' or state.word == 'declared' else cannot}"
    if state.how == "ports":
        said += ": it forwards ports"
    elif state.value and state.how != "kin":
        said += f" ({state.value})"
    if state.sources and state.how == "negotiated":
        said += f", by {' and '.join(state.sources)}"
    instead = f"; {' and '.join(state.instead)} can" if state.instead else ""
    return f"{said}{_known_by(state)}{instead}."


def clause(must: Must, *, unknown: bool) -> str:
    """Why a VPN is out that does not fulfil the must, or of which that is not known."""
    can, cannot = PHRASES[must]
    open_question = unknown and must != "tried"
    return f"{f'it is not known whether it {can}' if open_question else f'it {cannot}'} (your must {must})"


def command(vpn: str, must: Must) -> str:
    """The command that shows it; empty where no trial can."""
    if must in BY_DECLARATION:
        return ""
    if must in ON_A_PATH:
        return f"vpneval run transport --lab site:SITES.toml --vpn {vpn}"
    return f"vpneval run musts --profile smallest --vpn {vpn}"


def _known_by(state: State) -> str:
    if state.how == "declaration":
        return f" (declared on {state.day}, not tried)"
    if state.how == "kin":
        return f" (as {state.value}, which speaks the same protocol)"
    if state.how == "plugin" and state.word == "declared":
        return " (its plugin says so, not tried)"
    if state.run:
        return f" (in a run of {state.day})"
    return " (in this run)" if state.trial else ""


def _why_unknown(must: Must, state: State) -> str:
    if state.how == "negotiated":
        where = f" in {' and '.join(state.sources)}" if state.sources else ""
        return f": vpneval has not looked up {state.value}{where}"
    if state.how == "plugin":
        return ": its recipe needs fixed addresses"
    return ": its plugin does not declare it" if must in BY_DECLARATION else ""
