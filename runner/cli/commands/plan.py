"""``vpneval plan``: the trials of a run and their time, before anything is measured."""

from __future__ import annotations

from runner.cli.options import (
    Between,
    CostRate,
    Deadline,
    Duration,
    Experiments,
    Gateways,
    Instruments,
    Json,
    LabSpec,
    Levels,
    MaxRate,
    OutDir,
    ProfileName,
    Reps,
    Rounds,
    SearchRates,
    Seed,
    SliceLength,
    UntilSignificant,
    Vpns,
    WeightsAtTheEnd,
    begin,
    joined,
)


def plan(
    experiments: Experiments,
    vpns: Vpns = None,
    instruments: Instruments = None,
    levels: Levels = None,
    profile: ProfileName = "quick",
    reps: Reps = None,
    duration: Duration = None,
    rounds: Rounds = None,
    slice_s: SliceLength = None,
    lab: LabSpec = "netns",
    seed: Seed = 1,
    gateways: Gateways = "",
    out_dir: OutDir = None,
    deadline: Deadline = "",
    until_significant: UntilSignificant = None,
    weights: WeightsAtTheEnd = "",
    max_rate: MaxRate = "",
    between: Between = "",
    cost_rate: CostRate = "",
    search_rates: SearchRates = "",
    as_json: Json = False,
) -> None:
    """Print the trials of a run and how long they would take. Nothing is measured.

    With --out and the folder of a run: the trials that it lacks, and with --until-significant how long a sure answer
    takes.
    """
    begin("vpneval plans the trials.")
    from runner.cli.planned import show
    from runner.sweep.request import Options, ask

    asked = ask(
        Options(
            experiments,
            vpns=joined(vpns),
            instruments=instruments or (),
            levels=joined(levels),
            profile=profile,
            repetitions=reps,
            duration_s=duration,
            rounds=rounds,
            slice_s=slice_s,
            lab=lab,
            seed=seed,
            gateway_images=gateways,
            out=out_dir,
            deadline=deadline,
            until_significant=until_significant,
            weights=weights,
            max_rate=max_rate,
            between=between,
            cost_rate=cost_rate,
            search_rates=search_rates,
        )
    )
    show(asked, as_json)
