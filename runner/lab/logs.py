"""A trial's log folder: what a failure quotes from it, and what must not stay in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def tail(folder: Path, lines: int = 4) -> str:
    """The last lines of the gateways' and the routers' daemon logs, for the reason of a failure."""
    said = []
    for path in sorted([*folder.glob("gw*.log"), *folder.glob("r[0-9]*.log")]):
        last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-lines:]
        if last:
            said.append(f"{path.name}: " + " / ".join(line.strip()[:200] for line in last))
    return "\n" + "\n".join(said) if said else ""


def scrub(folder: Path, secrets: Mapping[str, str]) -> None:
    """Replace any secret that a daemon wrote into its log by its name. None should be there; this makes sure."""
    private = {name: text.strip() for name, text in secrets.items() if name.endswith(".key") and len(text) > 16}
    for path in folder.glob("*.log"):
        text = path.read_text(errors="replace")
        clean = text
        for name, value in private.items():
            clean = clean.replace(value, f"<{name}>")
        if clean != text:
            path.write_text(clean)
