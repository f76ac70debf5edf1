"""What the paper on strongSwan and Quagga found of a tunnel whose link dies, and its judge."""

from functools import partial

from runner.papers.findings import Data, Finding, Judgement, NotMeasured, single


def moved(data: Data, how: str) -> Judgement:
    """The share of failures after which the tunnel that ends on the dead link came through again, by repetition."""
    wanted = {"endpoint": "link", "link_failure": how}
    trials = [trial for trial in data.trials if trial.status == "ok" and wanted.items() <= trial.params.items()]
    recovered: dict[int, list[float]] = {}
    for trial in trials:
        detail = next(found.detail for found in trial.measurements if found.metric == "convergence_ms")
        recovered.setdefault(trial.repetition, []).append(1 - detail["unrecovered"] / detail["failures"])
    if not recovered:
        raise NotMeasured(f"no tunnel ended on the dead link ({how}) in this run")
    return single(
        {block: sum(shares) / len(shares) for block, shares in recovered.items()},
        (0.999, 1.0),
        1.0 if how == "carrier" else None,
    )


FINDINGS = tuple(
    Finding(
        f"moved.{how}",
        "router",
        "§V",
        f"a tunnel that ends on the dead link moves ({how})",
        partial(moved, how=how),
    )
    for how in ("carrier", "silent")  # the paper disabled the link; a silent death is our addition
)
