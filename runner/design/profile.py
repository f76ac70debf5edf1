"""What a profile is: how long and how often everything is measured, and which levels of each factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from runner.search.settings import UdpSearch

SHORT_SEARCH = UdpSearch(relative_width=0.05, trial_duration_s=1.0, confirm=None, budget_s=7.5)
SHORTEST_SEARCH = UdpSearch(relative_width=0.08, trial_duration_s=0.4, confirm=None, budget_s=9.0)


@dataclass(frozen=True)
class Profile:
    """How long and how often. ``levels`` restricts factors; ``note`` is shown wherever its results are;
    ``noted_before`` has earlier versions' words for the same, each of whose run folders this version goes on with."""

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
    rounds: int = 0  # of slices, in which the cells take turns; 0: every measurement whole, one after another
    slice_s: float = 0.2  # of TCP, between the marks
    until_significant: bool = False  # repeat what is undecided, unless the call says how often or that it shall not
    search_trial_s: float | None = None  # of a UDP search that goes on without a break; None: as long as its own
    from_path: bool = False  # the searches' highest rate is that of the bare path, which is measured first
    note: str = ""
    noted_before: tuple[str, ...] = ()

    @property
    def searches(self) -> dict[str, UdpSearch]:
        """Field name -> settings, of all searches of the profile."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return {name: value for name, value in settings.items() if isinstance(value, UdpSearch)}


PROFILES = {
    "quick": Profile(
        "quick",
        repetitions=3,
        duration_s=1,
        udp_payload_bytes=1300,
        udp=UdpSearch("rounds", trial_duration_s=0.3, confirm=None, budget_s=9.0),
        warm_budget_s=5.0,
        levels={
            "cipher": ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305", "3des-cbc", "null"),
            "file_bytes": ("20000000",),
            "download_bytes": ("20000000",),
            "packet_bytes": ("64", "512", "1400"),
            "quiet_s": ("30",),
            "detection": ("hello", "minimal_hello", "bfd", "static"),
        },
        # Without compression the payload does not matter; the thesis measured one there, too (§3.5.1).
        skip=({"compression": "off", "payload": "zeros"}, {"compression": "off", "payload": "text"}),
        rounds=8,
        note="quick profile: the VPNs take turns in slices of 0.2 s. Three tunnels of each VPN are measured one after "
        "the other, each for 8 rounds. Four ciphers are compared. The UDP payload is 1300 B, which fits into every "
        "tunnel's MTU. The WAN is not shaped",
        noted_before=(
            "quick profile: the VPNs take turns in slices of 0.2 s. Three tunnels of each VPN are measured one after "
            "the other, each for 8 rounds. The UDP search goes by the median of its trials, which last 0.3 s each. "
            "Four ciphers are compared. The UDP payload is 1300 B, which fits into every tunnel's MTU. The WAN is not "
            "shaped",
            "quick profile: the VPNs take turns in slices of 0.2 s, 8 rounds in each of 3 tunnels; UDP throughput of "
            "the median trial of 0.3 s, four ciphers, UDP payload 1300 B (fits every tunnel's MTU), WAN not shaped",
        ),
    ),
    "site": Profile(
        "site",
        repetitions=3,
        duration_s=2,
        udp_payload_bytes=1200,
        udp=UdpSearch("rounds", trial_duration_s=0.5, confirm=None, budget_s=12.0),
        warm_budget_s=8.0,
        rtt_s=1.0,
        levels={
            "cipher": ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305", "null"),
            "file_bytes": ("20000000",),
            "download_bytes": ("20000000",),
            "packet_bytes": ("64", "512"),
            "quiet_s": ("120",),
        },
        skip=({"compression": "off", "payload": "zeros"}, {"compression": "off", "payload": "text"}),
        rounds=8,
        until_significant=True,
        from_path=True,
        note="site profile: three tunnels of each VPN are measured one after the other, each for 8 rounds of slices of "
        "0.2 s. The UDP search offers at most 1.5 times what the bare path carries. The UDP payload is 1200 B, which "
        "fits a path with an MTU of 1400 B. The path is not shaped",
        noted_before=(
            "site profile: three tunnels of each VPN are measured one after the other, each for 8 rounds of slices of "
            "0.2 s. The UDP search goes by the median of its trials, which last 0.5 s each, and offers at most twice "
            "what the bare path carries. The UDP payload is 1200 B, which fits a path with an MTU of 1400 B. The path "
            "is not shaped",
            "site profile: the path is not shaped; slices of 0.2 s, 8 rounds in each of 3 tunnels; UDP throughput of "
            "the median trial of 0.5 s, up to 1.5 times what the bare path carries; UDP payload 1200 B (fits a path of "
            "1400 B)",
        ),
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
        levels={
            **dict.fromkeys(("file_bytes", "download_bytes"), ("50000000", "500000000", "1000000000")),
            "quiet_s": ("120",),
        },
        note="thesis profile: 10 repetitions of 10 s each. The UDP payload is 1470 B, and fragmentation is allowed. "
        "The WAN is shaped to 1 Gbit/s",
        noted_before=(
            "thesis profile: 10 repetitions of 10 s each. The UDP payload is 1470 B, and fragmentation is allowed. The "
            "WAN is shaped to 1 Gbit/s. UDP throughput is the rate at which the mean loss of ten trials of 10 s "
            "reaches 1 %",
            "thesis profile: 10 repetitions of 10 s, UDP payload 1470 B with fragmentation allowed, WAN shaped to 1 "
            "Gbit/s, UDP throughput where the mean loss of ten 10 s trials reaches 1 %",
        ),
    ),
    "smallest": Profile(
        "smallest",
        repetitions=1,
        duration_s=1,
        udp_payload_bytes=1300,
        udp=UdpSearch("rounds", trial_duration_s=0.4, confirm=None, budget_s=6.0),
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
            "quiet_s": ("30",),
        },
        note="smallest profile: every measurement is made once, to show that everything works. So its numbers have no "
        "intervals",
        noted_before=("smallest profile: one repetition, to see that everything works; its numbers have no spread",),
    ),
}


def between_rates(profile: Profile, lowest_bps: float, highest_bps: float) -> Profile:
    """The profile with searches that offer rates from ``lowest_bps`` to ``highest_bps`` only, whatever the path
    carries; bit/s."""
    change = f"; changed: the searches offer from {lowest_bps / 1e6:g} to {highest_bps / 1e6:g} Mbit/s"
    searches = {name: getattr(profile, name) for name in ("udp", "packets", "duplex")}
    kept = {
        name: replace(search, min_rate_bps=lowest_bps, max_rate_bps=highest_bps) for name, search in searches.items()
    }
    return replace(_with_note(profile, change), from_path=False, **kept)


def in_turns(profile: Profile, rounds: int | None, slice_s: float | None) -> Profile:
    """The profile with so many rounds in each tunnel, and TCP slices of ``slice_s`` seconds; None keeps its own."""
    change = f"; changed: {rounds} round{'s' * (rounds > 1)} in each tunnel" if rounds else ""
    change += f"; changed: slices of TCP of {slice_s:g} s" if slice_s else ""
    rounds, slice_s = rounds or profile.rounds, slice_s or profile.slice_s
    return replace(_with_note(profile, change), rounds=rounds, slice_s=slice_s)


def with_duration(profile: Profile, duration_s: int) -> Profile:
    """The profile with whole tests of ``duration_s`` seconds, one after another, and with UDP searches whose trials are
    as long."""
    noted = _with_note(profile, f"; changed: whole tests of {duration_s} s, one after another")
    if profile.udp.engine != "rounds":  # in earlier versions, the search's trials were not changed
        noted = replace(noted, noted_before=())
    return replace(noted, duration_s=duration_s, search_trial_s=float(duration_s), rounds=0)


def _with_note(profile: Profile, change: str) -> Profile:
    """The profile with this ``change`` in its notes."""
    before = tuple(note + change for note in profile.noted_before)
    return replace(profile, note=profile.note + change, noted_before=before)
