"""``vpneval plan``: the trials of a run and their time, before anything is measured."""

from __future__ import annotations

import typer

from runner.cli import options


def plan(
    context: typer.Context,
    experiments: options.Experiments,
    vpns: options.Vpns = None,
    builds: options.Builds = None,
    instruments: options.Instruments = None,
    question: options.QuestionName = "",
    levels: options.Levels = None,
    profile: options.ProfileName = "quick",
    repetitions: options.Reps = None,
    duration_s: options.Duration = None,
    rounds: options.Rounds = None,
    slice_s: options.SliceLength = None,
    lab: options.LabSpec = "netns",
    seed: options.Seed = 1,
    gateway_images: options.Gateways = "",
    out: options.OutDir = None,
    deadline: options.Deadline = "",
    until_significant: options.UntilSignificant = None,
    weights: options.Weights = "",
    max_rate: options.MaxRate = "",
    between: options.Between = "",
    search_rates: options.SearchRates = "",
    needs: options.NeedsFile = None,
    line: options.Line = "",
    path_rtt: options.PathRtt = "",
    path_loss: options.PathLoss = "",
    traffic: options.TrafficName = "",
    cores: options.Cores = "",
    must: options.MustHaves = None,
    as_json: options.Json = False,
) -> None:
    """Print the trials of a run and how long they would take. Nothing is measured.

    With --out and the folder of a run: the trials that it lacks, and with --until-significant how long a sure answer
    takes.
    """
    options.begin("vpneval plans the trials.")
    from runner.cli.planned import show
    from runner.sweep.request import resolve

    show(resolve(options.asked_for(context)), as_json)
