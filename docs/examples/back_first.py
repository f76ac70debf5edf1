"""Which VPN comes back first after a gateway has restarted?"""

from collections.abc import Sequence
from statistics import median

from runner.data.kinds import Strict
from runner.data.levels import BASELINE
from runner.data.trials import Cell
from runner.design.blocks import Heading, Paragraph, Table
from runner.design.question import Evidence, Going, Question, Said
from runner.evidence.estimates import estimate_pairs
from runner.evidence.stats import block_values

FAILURE, METRIC = "reboot", "outage_ms"


class Back(Strict):
    """VPN -> its outages in ms, the quickest VPN first; ``rivals``: those that may be as quick as that one: the 95 %
    interval of their ratio has 1 in it, or there is none yet."""

    outages_ms: dict[str, list[float]]
    rivals: list[str]


class BackFirst(Question[Back]):
    name = "back_first"
    looks_at = (0.5, 0.75)

    def judge(self, evidence: Evidence) -> Back:
        own = [trial for trial in evidence.trials if trial.params.get("failure") == FAILURE]
        vpns = sorted({trial.vpn for trial in own} - {BASELINE})
        values = {vpn: block_values([trial for trial in own if trial.vpn == vpn], METRIC) for vpn in vpns}
        order = sorted((vpn for vpn in vpns if values[vpn]), key=lambda vpn: median(values[vpn].values()))
        estimates = estimate_pairs({vpn: values[vpn] for vpn in order})  # of the logarithm of each ratio
        intervals = [estimates[order[0], vpn].interval() if (order[0], vpn) in estimates else None for vpn in order[1:]]
        rivals = [vpn for vpn, between in zip(order[1:], intervals, strict=True) if not between or between[1] >= 0]
        return Back(outages_ms={vpn: [*values[vpn].values()] for vpn in order}, rivals=rivals)

    def going(self, evidence: Evidence, judgement: Back, cells: Sequence[Cell], left_s: float) -> Going:
        first = [*judgement.outages_ms][:1]
        on = {BASELINE, *first, *judgement.rivals} if judgement.rivals or not first else set()
        return Going([cell for cell in cells if cell.vpn in on], judgement.rivals or ([] if first else ["all VPNs"]))

    def longer_s(self, evidence: Evidence, judgement: Back) -> float | None:
        took_s = sum(call.elapsed_s for call in evidence.run.invocations)
        return took_s if judgement.rivals else 0.0 if judgement.outages_ms else None

    def tell_open(self, evidence: Evidence, judgement: Back) -> str:
        first = next(iter(judgement.outages_ms), "")
        return f"{', '.join(judgement.rivals) or 'No other VPN'} may come back as soon as {first}."

    def say(self, judgement: Back, where: str) -> Said | None:
        if not judgement.outages_ms:
            return None
        line = f"{next(iter(judgement.outages_ms))} comes back first after a restart."
        if judgement.rivals:
            line = f"{line.rstrip('.')}, as it seems; {' and '.join(judgement.rivals)} may be as quick."
        rows = [
            [vpn, f"{median(times) / 1e3:.2f} s", f"{min(times) / 1e3:.2f}–{max(times) / 1e3:.2f} s", f"{len(times)}"]
            for vpn, times in judgement.outages_ms.items()
        ]
        table = Table("Outage after a restart", ["VPN", "median", "from – to", "restarts"], rows, numbers=[1, 2, 3])
        return Said(line, [Paragraph(line, "strong"), table], [Heading("After a restart"), Paragraph(line), table])
