"""The shipped runs that show musts: they load, they are about today's plugins, and they are small."""

from runner.catalogue import load_vpn, record_of, vpn_names
from runner.choice.musts import states
from runner.data.named import Must
from runner.data.shipped import shipped_folder
from runner.data.shipped_runs import shipped_runs
from tests.unit.synthetic import make_run


def test_they_are_of_todays_plugins() -> None:
    """A plugin that became another tunnel needs another run: a title, transport or data plane that differs hides it."""
    assert shipped_runs()
    for run, trials in shipped_runs():
        for name, record in run.vpns.items():
            now = record_of(load_vpn(name))
            assert (record.title, record.transport, record.dataplane) == (now.title, now.transport, now.dataplane)
        assert {trial.vpn.partition("@")[0] for trial in trials} <= {*vpn_names()}


def test_they_show_what_a_run_of_another_day_has_not_tried() -> None:
    """With no trial of its own, a run knows of openvpn what the shipped one saw, and since when."""
    asked = make_run(()).model_copy(update={"vpns": {"openvpn": record_of(load_vpn("openvpn"))}})
    found = states(asked, [], shipped_runs())["openvpn"]
    shown: tuple[Must, ...] = ("networks", "ipv6-inside", "post-quantum", "mesh")
    assert {must: found[must].word for must in shown} == dict.fromkeys(shown, "shown")
    assert all(found[must].day.startswith("2026-") and found[must].run for must in shown)
    assert found["udp-blocked"].word == found["fail-closed"].word == "no"
    assert found["udp-blocked"].instead == ["openvpn_tcp"]


def test_they_are_small_and_tell_nothing_of_whose_machine_it_was() -> None:
    for path in shipped_folder("evidence").glob("*/*"):
        assert path.name in ("run.json", "trials.jsonl")
        assert path.stat().st_size < 200_000
        assert "/tmp" not in path.read_text(encoding="utf-8")
