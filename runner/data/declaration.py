"""What a plugin declares of its VPN, as run.json keeps it: not measured, with its sources and their day."""

from __future__ import annotations

from typing import Literal

from runner.data.kinds import Line, Strict, Text

# Whose lists of permitted cryptography apply to a key exchange: those of the protocol that does it.
Handshake = Literal["", "TLS", "SSH", "IKEv2", "IKEv1"]


class Declaration(Strict):
    """``as_of``: the day (ISO) on which ``sources`` were opened. ``authentication``: first what the plugin sets up,
    then what else there is. ``inner``: what the tunnel carries as it is set up; ``outer``: the IP versions that it can
    travel over. The others are as in runner/vpn/declared.py."""

    as_of: Line
    sources: list[Text]
    protocol: Literal["standard", "own"]
    handshake: Handshake = ""
    authentication: list[Line]
    forward_secrecy: bool
    post_quantum: bool
    maintained: bool
    inner: list[Line]
    outer: list[Line]
    nat: bool
    roaming: bool
    mesh: bool
