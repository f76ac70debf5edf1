"""What an experiment is, as data: a question, the factors it varies, and the cells that follow from them.

Tunnel factors get a tunnel each; traffic factors are measured inside it. A file of ``experiments/`` holds one
``EXPERIMENT``; the profile says how long and how often, and which levels.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner import wan
from runner.errors import UsageError
from runner.findings import Finding
from runner.measure.udp import UdpSearch
from runner.model import VARIANTS, WAN_FACTORS, Cell, ExperimentRecord
from runner.plugin import AEAD, Vpn, require_known

# Every level that a factor can have. A VPN may have fewer: what it lacks is `unsupported`, with its own words.
LEVELS: dict[str, tuple[str, ...]] = {
    "cipher": (
        "aes-128-cbc",
        "aes-192-cbc",
        "aes-256-cbc",
        "3des-cbc",
        "blowfish-128-cbc",
        "aes-128-gcm",
        "aes-256-gcm",
        "chacha20-poly1305",
        *("null", "rc4-128"),
        *("aes-128-ctr", "aes-192-ctr", "aes-256-ctr"),
        *("camellia-128-cbc", "camellia-192-cbc", "camellia-256-cbc"),
        *("blowfish-192-cbc", "blowfish-256-cbc", "cast-128-cbc", "twofish-128-cbc"),
        *("aes-192-gcm", "aes-128-ccm", "aes-192-ccm", "aes-256-ccm"),
        *("aes-128-gmac", "aes-192-gmac", "aes-256-gmac"),
        *("salsa2012-umac", "aes-128-ecb", "blowfish-128-ecb"),
    ),
    "integrity": (
        *("hmac-sha1", "hmac-sha256", "hmac-md5", "hmac-sha384", "hmac-sha512", "aes-xcbc", "aes-cmac", "aead", "none"),
    ),
    "compression": ("off", "on", "lz4"),
    "transport": (
        *("tcp", "udp", "idle", "loaded", "download", "packets", "overhead", "mtu"),
        *("duplex", "flows", "clients", "rekey", "device", "security", "operations", "mesh"),
        *("recovery", "reroute", "failover"),
    ),
    "payload": ("random", "zeros", "text"),
    "streams": ("1", "2", "4", "8", "16", "32", "64"),
    "clients": ("1", "2", "4", "8", "16", "32", "64"),
    "direction": ("forward", "reverse"),
    "load": ("full", "half"),
    "file_bytes": ("20000000", "50000000", "500000000", "1000000000"),
    "payload_bytes": ("1300", "1470"),
    "packet_bytes": ("64", "128", "256", "512", "1024", "1400", "1500"),
    "rekey": ("esp", "ike", "clock", "protocol"),
    "driver": ("accelerated", "generic"),
    "ike": ("aes128-sha256-ecp256", "aes256-sha384-ecp384", "aes256gcm16-prfsha384-x25519", "aes128-sha256-modp4096"),
    "gw2_cpu": ("0.5", "0.2", "0.05"),
    "device_cipher": ("aes-128-cbc", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"),
    "fragmentation": ("refuse", "allow"),
    "failure": ("restart", "reboot", "wan_cut", "roaming"),
    "redundancy": ("off", "vrrp", "vrrp_fast", "ha_sync", "clusterip"),
    "gateway_failure": ("interface", "gateway", "daemon", "sync_link", "return", "none"),
    "link_failure": ("carrier", "silent"),
    "detection": ("default", "hello", "minimal_hello", "bfd"),
    "endpoint": ("loopback", "link"),
    "download_bytes": ("20000000", "50000000", "500000000", "1000000000"),
    "download_limit": ("off", "2000000"),
    "cpus": ("1", "2", "3", "4"),
    "wan": tuple(wan.PRESETS),
    "wan_delay_ms": ("0", "25"),
    "wan_jitter_ms": ("0", "5"),
    "wan_loss_ratio": ("0", "0.001", "0.01", "0.03"),
    "wan_rate_bps": ("20000000", "100000000", "1000000000"),
    "wan_queue_ms": ("20", "200"),
    "wan_mtu_bytes": ("1500", "1400", "1280"),
}
# Factors that take any whole number between these: a UDP payload, an IPv4 packet with a UDP header (RFC 768), a file.
RANGES = {
    **{"payload_bytes": (1, 65507), "packet_bytes": (28, 65535), "file_bytes": (1, 10**11)},
    **{"download_bytes": (10**6, 10**11), "cpus": (1, 4096)},
}
TUNNEL = ("cipher", "integrity", "compression")

TCP = {"transport": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
UDP = {"transport": "udp"}
IDLE = {"transport": "idle"}
LOADED = {"transport": "loaded", "load": "full"}
DOWNLOAD = {"transport": "download", "file_bytes": "20000000"}
PACKETS = {"transport": "packets", "packet_bytes": "64"}
OVERHEAD = {"transport": "overhead", "packet_bytes": "64"}
PATH_MTU = {"transport": "mtu"}
RECOVERY = {"transport": "recovery", "failure": "restart"}
FAILOVER = {"transport": "failover", "redundancy": "vrrp", "gateway_failure": "interface"}
HA_DOWNLOAD = FAILOVER | {"gateway_failure": "none", "download_bytes": "20000000", "download_limit": "off", "cpus": "1"}
REROUTE = {"transport": "reroute", "detection": "hello", "endpoint": "loopback", "link_failure": "silent"}
DUPLEX = {"transport": "duplex", "packet_bytes": "64"}
FLOWS = {"transport": "flows", "streams": "1"}
CLIENTS = {"transport": "clients", "clients": "1"}
REKEY = {"transport": "rekey", "rekey": "esp"}
DEVICE = {"transport": "device", "device_cipher": "aes-128-cbc"}
SECURITY = {"transport": "security"}
OPERATIONS = {"transport": "operations"}
MESH = {"transport": "mesh"}
MAY_FRAGMENT = ("udp", "packets", "overhead")


SHORT_SEARCH = UdpSearch(relative_width=0.05, trial_duration_s=1.0, confirm=None, budget_s=7.5)
SHORTEST_SEARCH = UdpSearch(relative_width=0.08, trial_duration_s=0.4, confirm=None, budget_s=3.0)


@dataclass(frozen=True)
class Profile:
    """How long and how often. ``levels`` restricts factors; ``note`` is shown wherever its results are."""

    name: str
    repetitions: int
    duration_s: int
    udp_payload_bytes: int
    udp: UdpSearch
    warm_budget_s: float | None = None  # the search's budget from the second repetition on
    wan_rate_bps: float | None = None
    rtt_s: float = 0.5
    loaded_s: float = 1.0  # of the exchanges under load
    packets: UdpSearch = SHORT_SEARCH
    duplex: UdpSearch = SHORTEST_SEARCH
    failures: int = 1  # that a trial causes, one after another, each in a fresh lab
    outage_limit_s: float = 60.0  # then a failure is given up as one without recovery
    probe_rate: float = 1000.0  # datagrams a second each way: its inverse is the resolution of an outage
    fragmentation: str = "refuse"  # what happens to packets that are longer than the tunnel's MTU
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip: tuple[Mapping[str, str], ...] = ()  # cells with all of these levels are left out
    note: str = ""


PROFILES = {
    "quick": Profile(
        "quick",
        repetitions=3,
        duration_s=1,
        udp_payload_bytes=1300,
        udp=UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=None, budget_s=9.0),
        warm_budget_s=5.0,
        levels={
            "cipher": ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305", "3des-cbc", "null"),
            "file_bytes": ("20000000",),
            "download_bytes": ("20000000",),
            "packet_bytes": ("64", "512", "1400"),
            "detection": ("hello", "minimal_hello", "bfd"),
        },
        # Without compression the payload does not matter; the thesis measured one there, too (§3.5.1).
        skip=({"compression": "off", "payload": "zeros"}, {"compression": "off", "payload": "text"}),
        note="quick profile: 1 s tests, 3 repetitions, UDP search unconfirmed and warm-started, four ciphers, "
        "UDP payload 1300 B (fits every tunnel's MTU), WAN not shaped",
    ),
    "thesis": Profile(
        "thesis",
        repetitions=10,
        duration_s=10,
        udp_payload_bytes=1470,
        udp=UdpSearch(engine="binary", relative_width=0.001, confirm=(10, 10.0), max_rate_bps=1e9),
        wan_rate_bps=1e9,
        rtt_s=2.0,
        loaded_s=10.0,
        packets=UdpSearch(relative_width=0.01, trial_duration_s=2.0, confirm=(3, 10.0)),
        duplex=UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=None, budget_s=20.0),
        failures=3,  # 30 of each kind
        outage_limit_s=150.0,  # more than the 60 s and 120 s that daemons wait by default
        fragmentation="allow",
        levels=dict.fromkeys(("file_bytes", "download_bytes"), ("50000000", "500000000", "1000000000")),
        note="thesis profile: 10 repetitions of 10 s, UDP payload 1470 B with fragmentation allowed, "
        "WAN shaped to 1 Gbit/s, UDP throughput where the mean loss of ten 10 s trials reaches 1 %",
    ),
    "smallest": Profile(
        "smallest",
        repetitions=1,
        duration_s=1,
        udp_payload_bytes=1300,
        udp=UdpSearch(relative_width=0.05, trial_duration_s=1.0, confirm=None, budget_s=6.0),
        rtt_s=0.2,
        loaded_s=0.5,
        levels={
            "cipher": ("aes-128-cbc", "null"),
            "payload": ("random", "zeros"),
            "load": ("full",),
            "failure": ("restart", "wan_cut"),
            "redundancy": ("vrrp_fast",),
            "gateway_failure": ("interface", "return"),
            "detection": ("minimal_hello",),
            "endpoint": ("loopback",),
            "file_bytes": ("20000000",),
            "download_bytes": ("20000000",),
            "cpus": ("1",),
            "packet_bytes": ("64", "1400"),
        },
        note="smallest profile: one repetition, to see that everything works; its numbers have no spread",
    ),
}


# A combination's VPN and levels, and the profile -> is it measured? For questions that are no full cross of factors.
Wanted = Callable[[Vpn, Mapping[str, str], Profile], bool]


@dataclass(frozen=True)
class Experiment:
    """A declared experiment. ``vary`` maps tunnel factors to their levels, on top of the configuration
    ``base`` of each VPN; ``traffic`` lists what is measured inside each tunnel, ``vary_traffic`` crosses it."""

    name: str
    question: str
    method: str
    source: str
    metrics: tuple[str, ...]
    traffic: tuple[Mapping[str, str], ...]
    base: str = "comparable"
    underlay: Mapping[str, str] = field(default_factory=dict)  # WAN factors that it fixes
    vary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vary_traffic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # VPNs it is about; empty: all that are asked for
    keep: tuple[str, ...] = ()  # factors whose levels are the question itself: a profile leaves none of them out
    own: bool = False  # each VPN's own levels beside those that are varied
    sensible: Callable[[Mapping[str, str]], bool] | None = None  # which combinations can be measured at all
    wanted: Wanted | None = None  # which of these it measures, unless tunnels are named; all, where there is none
    findings: tuple[Finding, ...] = ()  # what a paper found, and how this run's data is judged by it

    def cells(self, vpn: Vpn, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[Cell]:
        """Every combination of levels for ``vpn``; ``chosen`` levels (--set) override those declared."""
        if self.only and vpn.name not in self.only:
            return []
        tunnels = self._tunnels(vpn, profile, chosen)
        traffics = self._traffics(profile, chosen)
        combined = [{**tunnel, **traffic} for tunnel in tunnels for traffic in traffics]
        named = {factor: chosen[factor] for factor in VARIANTS if factor in chosen and not vpn.reference}
        varied = [dict(zip(named, levels, strict=True)) for levels in itertools.product(*named.values())]
        combined = _once([params | levels for params in combined for levels in varied])
        wanted = [params for params in combined if not any(skip.items() <= params.items() for skip in profile.skip)]
        if self.sensible:
            wanted = [params for params in wanted if self.sensible(params)]
        if self.wanted:
            # Who names tunnels gets those; who names the kind of rekey gets it, however long it takes.
            asked = PROFILES["thesis"] if "rekey" in chosen else profile
            named_tunnel = any(factor in chosen for factor in TUNNEL)
            wanted = [
                params
                for params in wanted
                if (named_tunnel and not any(factor in params and factor not in chosen for factor in VARIANTS))
                or self.wanted(vpn, params, asked)
            ]
        return [Cell(vpn=vpn.name, params=params) for params in wanted]

    def record(self, vpns: Sequence[Vpn], profile: Profile, chosen: Mapping[str, Sequence[str]]) -> ExperimentRecord:
        """The experiment as run.json holds it: the levels asked for, and the cells of all ``vpns`` in their order."""
        cells = [cell for vpn in vpns for cell in self.cells(vpn, profile, chosen)]
        factors = {**self.vary, **self.vary_traffic}
        return ExperimentRecord(
            name=self.name,
            question=self.question,
            method=self.method,
            source=self.source,
            factors={name: list(self._levels(name, levels, profile, chosen)) for name, levels in factors.items()},
            metrics=list(self.metrics),
            cells=cells,
        )

    def _levels(
        self, factor: str, declared: Sequence[str], profile: Profile, chosen: Mapping[str, Sequence[str]]
    ) -> Sequence[str]:
        if factor in chosen:
            return chosen[factor]
        allowed = None if factor in self.keep else profile.levels.get(factor)
        return [level for level in declared if allowed is None or level in allowed]

    def _tunnels(self, vpn: Vpn, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        base = dict(vpn.recommended if self.base == "recommended" else vpn.comparable)
        varied = {name: self._levels(name, levels, profile, chosen) for name, levels in self.vary.items()}
        varied |= {name: levels for name, levels in chosen.items() if name in TUNNEL or name in WAN_FACTORS}
        if "wan" in chosen:  # another WAN altogether
            varied = {name: levels for name, levels in varied.items() if name in chosen or name not in WAN_FACTORS}
        else:
            base |= self.underlay
        if vpn.reference:  # it has no cipher to vary, but its WAN is everybody's: it is there to be compared with
            wans = {name: levels for name, levels in varied.items() if name in WAN_FACTORS}
            return [base | dict(zip(wans, levels, strict=True)) for levels in itertools.product(*wans.values())]
        tunnels = [base] if self.own and not any(factor in chosen for factor in TUNNEL) else []
        for levels in itertools.product(*varied.values()):
            tunnel = base | dict(zip(varied, levels, strict=True))
            if "integrity" not in varied or tunnel["cipher"] in AEAD:
                tunnel["integrity"] = matching_integrity(vpn, tunnel["cipher"])
            if tunnel not in tunnels:
                tunnels.append(tunnel)
        return tunnels

    def _traffics(self, profile: Profile, chosen: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        varied = {name: self._levels(name, levels, profile, chosen) for name, levels in self.vary_traffic.items()}
        found: list[dict[str, str]] = []
        for declared in self.traffic:
            traffic = dict(declared)
            if traffic["transport"] == "udp":
                traffic["payload_bytes"] = str(profile.udp_payload_bytes)
            if traffic["transport"] in MAY_FRAGMENT:
                traffic["fragmentation"] = profile.fragmentation
            mine = {factor: levels for factor, levels in varied.items() if factor in traffic}
            mine |= {factor: levels for factor, levels in chosen.items() if factor in traffic}
            for levels in itertools.product(*mine.values()):
                one = dict(traffic) | dict(zip(mine, levels, strict=True))
                if one["transport"] != traffic["transport"]:
                    continue  # --set transport=udp drops the TCP traffic; it does not turn it into UDP
                if one.get("fragmentation") == "refuse":
                    del one["fragmentation"]  # as it is where nobody asks for it
                if one not in found:
                    found.append(one)
        return found


def _once(params: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Each combination once, in its order."""
    return list({tuple(one.items()): one for one in params}.values())


def matching_integrity(vpn: Vpn, cipher: str) -> str:
    """The integrity that goes with a cipher: its own tag for an AEAD, else the VPN's comparable HMAC."""
    if cipher in AEAD:
        return "aead"
    declared = vpn.comparable["integrity"]
    return "hmac-sha256" if declared == "aead" else declared


def experiment_names() -> list[str]:
    """The experiments of experiments/, sorted. A file whose name begins with _ is not one."""
    import experiments

    return sorted(module.name for module in pkgutil.iter_modules(experiments.__path__) if module.name[0] != "_")


# Names that stand for several experiments.
GROUPS = {"papers": ("thesis", "crypto_matrix", "oslv", "devices", "rekey", "load")}


def expand(names: Sequence[str]) -> list[str]:
    """The experiments that ``names`` name, groups opened, each once. Raises UsageError for an unknown name."""
    for name in names:
        require_known("experiment", name, [*experiment_names(), *GROUPS])
    return list(dict.fromkeys(member for name in names for member in GROUPS.get(name, (name,))))


def load_experiment(name: str) -> Experiment:
    """The experiment ``name``. Raises UsageError with the near matches for an unknown one."""
    require_known("experiment", name, experiment_names())
    experiment: Experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    return experiment


def parse_levels(text: str) -> dict[str, list[str]]:
    """``--set``: ``factor=level,factor=level``; a factor named twice has both levels.

    Raises UsageError for an unknown factor or level, and for a number outside of its factor's range.
    """
    chosen: dict[str, list[str]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        factor, equals, level = part.partition("=")
        if not equals or not level:
            raise UsageError(f"--set takes factor=level, not {part!r}; factors: {', '.join(LEVELS)}")
        require_known("factor", factor, list(LEVELS))
        if factor in RANGES:
            level = _in_range(factor, level)
        elif factor in wan.FACTORS:
            level = wan.in_range(factor, level)
        else:
            require_known(f"{factor} level", level, LEVELS[factor])
        chosen.setdefault(factor, []).append(level)
    return chosen


def _in_range(factor: str, level: str) -> str:
    """The number ``level`` as it is written in a trial. Raises UsageError unless it is whole and in range."""
    low, high = RANGES[factor]
    if not (level.isascii() and level.isdigit() and low <= int(level) <= high):
        raise UsageError(f"{factor} takes a whole number from {low} to {high}, not {level!r}")
    return str(int(level))
