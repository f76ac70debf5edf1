"""What a plugin declares of its VPN, as run.json keeps it: not measured, with its sources and their day."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from runner.data.kinds import Line, Text

# Whose lists of permitted cryptography apply to a key exchange: those of the protocol that does it.
Handshake = Literal["", "TLS", "SSH", "IKEv2", "IKEv1"]


class Declaration(BaseModel):
    """``as_of``: the day (ISO) on which ``sources`` were opened. ``authentication``: first what the plugin sets up,
    then what else there is. ``inner``: what the tunnel carries as it is set up; ``outer``: the IP versions that it can
    travel over. The others are as in runner/vpn/declared.py."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
