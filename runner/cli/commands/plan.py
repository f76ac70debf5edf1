"""``vpneval plan``: the trials of a run and their time, before anything is measured."""

from __future__ import annotations

import typer

from runner.cli.options import (
    Between,
    Builds,
    Deadline,
    Duration,
    Experiments,
    Gateways,
    Instruments,
    Json,
    LabSpec,
    Levels,
    Line,
    MaxRate,
    MustHaves,
    NeedsFile,
    OutDir,
    PathLoss,
    PathRtt,
    ProfileName,
    Reps,
    Rounds,
    SearchRates,
    Seed,
    SliceLength,
    TrafficName,
    UntilSignificant,
    Vpns,
    WeightsAtTheEnd,
    asked_for,
    begin,
)


def plan(
    context: typer.Context,
    experiments: Experiments,
    vpns: Vpns = None,
    builds: Builds = None,
    instruments: Instruments = None,
    levels: Levels = None,
    profile: ProfileName = "quick",
    repetitions: Reps = None,
    duration_s: Duration = None,
    rounds: Rounds = None,
    slice_s: SliceLength = None,
    lab: LabSpec = "netns",
    seed: Seed = 1,
    gateway_images: Gateways = "",
    out: OutDir = None,
    deadline: Deadline = "",
    until_significant: UntilSignificant = None,
    weights: WeightsAtTheEnd = "",
    max_rate: MaxRate = "",
    between: Between = "",
    search_rates: SearchRates = "",
    needs: NeedsFile = None,
    line: Line = "",
    path_rtt: PathRtt = "",
    path_loss: PathLoss = "",
    traffic: TrafficName = "",
    must: MustHaves = None,
    as_json: Json = False,
) -> None:
    """Print the trials of a run and how long they would take. Nothing is measured.

    With --out and the folder of a run: the trials that it lacks, and with --until-significant how long a sure answer
    takes.
    """
    begin("vpneval plans the trials.")
    from runner.cli.planned import show
    from runner.sweep.request import resolve

    show(resolve(asked_for(context)), as_json)
