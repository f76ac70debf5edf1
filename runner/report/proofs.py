"""What was proven of each tunnel before it was measured: negotiated parameters, data path, version, and the marker."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.kinds import Strict
from runner.data.trials import Trial
from runner.design.blocks import Block, Heading, Paragraph, Table, TableCell

HEAD = ["tunnel", "negotiated", "data path and version", "what else was seen", "the marker", "trials"]
ABOUT = (
    "Before a tunnel is measured, daemon and kernel are asked what they negotiated, and random bytes are sent through "
    "it both ways while the WAN is captured: the marker. A number opens into its trials, and each names its line here."
)
FEW = 2  # values of one fact that are listed


class ProofRow(Strict):
    """Tunnels of one VPN in which the same was seen; ``number`` counts the rows from 1, ``trials`` its trials."""

    number: int
    vpn: str
    negotiated: str
    data_path: str
    facts: str
    marker: str
    trials: int

    @property
    def cells(self) -> list[str | TableCell]:
        """The cells of the row, in the columns of HEAD."""
        return [
            TableCell(f"{self.number}. {self.vpn}", name=name_of(self.number)),
            *(self.negotiated, self.data_path, self.facts, self.marker),
            str(self.trials),
        ]


def name_of(number: int) -> str:
    """The name that links to the row of this number lead to."""
    return f"evidence-{number}"


def proofs_of(trials: Sequence[Trial]) -> tuple[list[ProofRow], dict[str, int]]:
    """The rows of evidence, in the order in which the VPNs came, and trial's id -> the number of its row."""
    by_row: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        if trial.evidence:
            by_row.setdefault((trial.vpn, _negotiated_words(trial), _path(trial), _marker(trial)), []).append(trial)
    first = {vpn: at for at, vpn in reversed(list(enumerate(trial.vpn for trial in trials)))}
    rows: list[ProofRow] = []
    numbers: dict[str, int] = {}
    for number, (key, same) in enumerate(sorted(by_row.items(), key=lambda item: (first[item[0][0]], item[0])), 1):
        vpn, negotiated, path, marker = key
        rows.append(
            ProofRow(
                number=number,
                vpn=vpn,
                negotiated=negotiated,
                data_path=path,
                facts=_facts(same),
                marker=marker,
                trials=len(same),
            )
        )
        numbers |= {trial.id: number for trial in same}
    return rows, numbers


def _negotiated_words(trial: Trial) -> str:
    assert trial.evidence
    seen = trial.evidence
    words = (seen.cipher, seen.integrity, seen.compression, seen.key_exchange)
    return ", ".join(word for word in words if word)


def _path(trial: Trial) -> str:
    assert trial.evidence
    return "; ".join(word for word in (trial.evidence.data_path, trial.evidence.version) if word)


def _facts(trials: Sequence[Trial]) -> str:
    """The other facts of the evidence, each with its values; of many values, the first few."""
    seen: dict[str, dict[str, None]] = {}
    for trial in trials:
        for name, value in (trial.evidence.facts if trial.evidence else {}).items():
            seen.setdefault(name.replace("_", " "), {})[value] = None
    return "; ".join(f"{name} {_few(list(values))}" for name, values in seen.items())


def _few(values: Sequence[str]) -> str:
    more = len(values) - FEW
    return " or ".join(values[:FEW]) + (f" or {more} other values" if more > 0 else "")


def _marker(trial: Trial) -> str:
    proof = trial.proof
    if not proof:
        return "no marker was sent"
    arrived = "arrived" if proof.delivered else "did not arrive"
    if proof.marker_on_wan:
        promised = (
            "although it was promised to be secret" if proof.confidential_promised else "nothing else is promised"
        )
        return f"{arrived}; readable on the WAN, {promised}"
    promised = "as promised" if proof.confidential_promised else "which was not promised"
    return f"{arrived}; unseen on the WAN, {promised}"


def section(rows: Sequence[ProofRow]) -> list[Block]:
    """The section, for every form; empty where nothing was proven."""
    if not rows:
        return []
    table = Table("What was proven before it was measured", HEAD, [row.cells for row in rows], named=True)
    return [Heading("Evidence", "evidence"), Paragraph(ABOUT), table]
