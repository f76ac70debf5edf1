"""What limits each throughput, what gateways with cores of their own would carry, and where the order would change."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.kinds import Strict
from runner.data.levels import outside_of_tunnel, traffic_factors, tunnel_levels
from runner.data.loads import Limit
from runner.data.own_cores import Apart
from runner.data.trials import cell_key
from runner.design.blocks import Block, Heading, Note, Paragraph, Table
from runner.evidence.model import Configuration
from runner.report import text

ABOUT = (
    "While it measured a throughput, vpneval watched every machine of the lab: cores, threads, queues, quotas. Where "
    "all nodes share the cores, the VPN that takes the least CPU time of all of them carries the most. On separate "
    "gateways, the VPN whose busiest thread has the least to do carries the most. A program waits while it is ready to "
    "run and has no core."
)
ABOUT_APART = (
    "The throughput on separate gateways is an estimate: each gateway has these cores for itself, and the program that "
    "limits the VPN keeps one of them fully busy. At the lower end, a byte costs it as much CPU time as here, at the "
    "upper end a third of that: the more packets wait, the less each of them costs. In our measurements, programs "
    "reached between 0.9 and 2.9 times the lower end. Neither end is below what was measured here. Real network cards "
    "take additional CPU time."
)
HEAD = ("VPN", "levels", "median", "what limits it", "on separate gateways")


class LimitRow(Strict):
    """One cell of one throughput: its median in ``unit``, the ``limit`` that most of its trials had (``trials`` of
    ``of``), and what separate gateways would carry, None where that is not known; ``unknown`` says why."""

    vpn: str
    params: dict[str, str]
    levels: str
    metric: str
    unit: str
    median: float
    limit: Limit
    trials: int
    of: int
    apart: Apart | None = None
    unknown: str = ""

    @property
    def says(self) -> str:
        """The sentence, and how many trials say so."""
        return self.limit.sentence + (f" ({self.trials} of {self.of} trials)" if self.trials < self.of else "")

    @property
    def cells(self) -> list[str]:
        """The cells of the row as text, in the columns of HEAD."""
        ends = (self.apart.low_bps, self.apart.high_bps) if self.apart else ()
        there = sorted(_in_unit(bps, self.unit, self.params) for bps in ends)
        separate = " to ".join(text.quantity(value, self.unit) for value in there) if there else text.NONE
        return [self.vpn, self.levels, text.quantity(self.median, self.unit), self.says, separate]


class SeparateOrder(Strict):
    """What becomes of the order of a ranking, by its ``configuration`` and ``image``, in the throughput ``title`` on
    separate gateways, in a sentence; ``stands``: nothing is known to change it."""

    title: str
    configuration: str
    image: str
    stands: bool
    says: str

    @property
    def sentence(self) -> str:
        """The sentence with what it is about before it."""
        return f"{self.title}, {self.configuration}{f' ({self.image})' if self.image else ''}: {self.says}"


class LimitsSection(Strict):
    """The section: a row for each cell; ``orders``: for each ranking and throughput, what becomes of the order on
    separate gateways, in a sentence, and ``changes`` as data. ``stands``: does it stand everywhere, as far as is known?
    None: nobody knows."""

    rows: list[LimitRow] = []
    orders: list[str] = []
    changes: list[SeparateOrder] = []
    stands: bool | None = None

    @property
    def verdict(self) -> str:
        """What ``stands`` means, in a sentence; empty where it is not known."""
        if self.stands is None:
            return ""
        if self.stands:
            return "As far as this run can tell, separate gateways would not change the order of the VPNs."
        return "Separate gateways might change the order of the VPNs: an order here holds for shared cores."

    @property
    def about_apart(self) -> str:
        """What the throughputs on separate gateways are, or why there are none; empty where no machine was watched."""
        if any(row.apart for row in self.rows):
            return ABOUT_APART
        whys = sorted({row.unknown for row in self.rows})
        return f"The throughput on separate gateways is not estimated: {'; '.join(whys)}." if whys else ""

    @property
    def sentences_by_cell(self) -> dict[tuple[str, str], str]:
        """(Metric, cell) -> the sentence on its limit, for the tables of the experiments."""
        return {(row.metric, cell_key(row.vpn, row.params)): row.says for row in self.rows}


def rows_of(limited: LimitsSection, configuration: Configuration) -> list[LimitRow]:
    """What limits these VPNs in the throughputs that are compared: the rows, the VPNs in their order."""
    mine = [row for row in limited.rows if is_compared(row, configuration)]
    return sorted(mine, key=lambda row: ([*configuration.levels].index(row.vpn), row.metric))


def orders_of(limited: LimitsSection, configuration: Configuration) -> list[SeparateOrder]:
    """What becomes of the order of these VPNs on separate gateways, throughput by throughput."""
    this = (configuration.configuration, configuration.image)
    return [order for order in limited.changes if (order.configuration, order.image) == this]


def changed_order(limited: LimitsSection, configuration: Configuration, title: str) -> str:
    """How separate gateways would change the order in the throughput called ``title``, in a sentence; empty where no
    change is known."""
    return next((one.says for one in orders_of(limited, configuration) if one.title == title and not one.stands), "")


def bits_of(params: Mapping[str, str]) -> int:
    """The length in bits of a packet, or of a file: what is measured at these levels has one length; 0 where none."""
    return 8 * next((int(params[factor]) for factor in traffic_factors(params) if factor.endswith("_bytes")), 0)


def _in_unit(bps: float, unit: str, params: Mapping[str, str]) -> float:
    """A rate in bit/s as a value in ``unit``: the reverse of ``find_limits``'s."""
    if unit == "bit/s":
        return bps
    bits = bits_of(params)
    return bps / bits if unit == "packet/s" else bits / bps


def is_compared(row: LimitRow, configuration: Configuration) -> bool:
    """Are its tunnel and its traffic those that are compared?"""
    same_image = row.params.get("image", "") == configuration.image
    same = same_image and tunnel_levels(row.params) == configuration.levels.get(row.vpn)
    return same and outside_of_tunnel(row.params) == configuration.traffic.get(row.metric)


def section(limited: LimitsSection) -> list[Block]:
    """The section, for every form; empty where no machine was watched."""
    if not limited.rows:
        return []
    notes = [limited.about_apart]
    notes += [limited.verdict] if limited.verdict else []
    rows = [row.cells for row in limited.rows]
    table = Table(
        "What limits each throughput", HEAD, rows, notes=[Note(sentence) for sentence in [*notes, *limited.orders]]
    )
    return [Heading("What limits it", "limits"), Paragraph(ABOUT), table]
