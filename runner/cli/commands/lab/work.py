"""A live lab to play in: a tunnel that is up, and a shell on one of its nodes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runner.catalogue import parse_levels
from runner.data.errors import CannotRunHere, LabError, PluginError, UsageError, VpnevalError
from runner.data.levels import EXCHANGES, Params
from runner.design.experiment import matching_integrity
from runner.lab.node.logs import tail
from runner.lab.places import check_spec, open_rig
from runner.tunnel.bring_up import bring_up, make_secrets, start_services, vpn_refusal
from runner.vpn.plugin import Vpn

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def one_tunnel(vpn: Vpn, levels: str, usual: Params | None = None, beside: Collection[str] = ()) -> dict[str, str]:
    """The levels of ``--set`` on top of the ``usual`` ones (default: the VPN's comparable ones), and those of factors
    that may be set ``beside``. Raises UsageError unless they make one tunnel."""
    chosen = parse_levels(levels, [vpn])
    params = dict(usual or vpn.comparable)
    for factor, values in chosen.items():
        if factor not in (*params, *EXCHANGES, *beside) or len(values) != 1:
            raise UsageError(f"a tunnel needs one level of each of {', '.join((*params, *beside))}, not {levels!r}")
        params[factor] = values[0]
    if "cipher" in chosen and "integrity" not in chosen:
        params["integrity"] = matching_integrity(vpn, params["cipher"])
    return params


def shell(
    node: str,
    vpn: Vpn,
    params: Params,
    image: str,
    where: str,
    command: str,
    say: Callable[[str], None],
    limits: Mapping[str, Any] | None = None,
    uplink: str = "",
) -> int:
    """Run ``command`` on ``node``, or a shell to type in, while the tunnel is up. Returns its exit code. Afterwards the
    lab is taken down. ``limits`` replace those of a site's inventory, and ``uplink`` is the one of its
    lines that is meant.

    Raises UsageError for a node that the lab lacks, CannotRunHere where the VPN cannot run, VpnevalError where it does
    not come up.
    """
    check_spec(where)
    with ExitStack() as stack:
        rig = stack.enter_context(open_rig(where, say, limits, uplink))
        root = rig.image(image, say)
        logs = Path(stack.enter_context(TemporaryDirectory()))
        lab = stack.enter_context(rig.lab(root, logs=logs))
        if node not in lab.nodes:
            raise UsageError(f"this lab has no {node}. Its nodes are: {', '.join(lab.nodes)}")
        if no := vpn_refusal(lab, vpn, params):
            raise CannotRunHere(f"{vpn.name} cannot run here: {no.reason}")
        try:
            secrets = make_secrets(vpn, rig.alone(root, lambda line: None), lab.sites)
            start_services(lab)
            up = bring_up(lab, vpn, params, secrets)
        except LabError:
            raise
        except PluginError as broken:
            raise PluginError(f"{broken}{tail(logs)}") from broken
        except (VpnevalError, TimeoutError) as late:
            raise VpnevalError(f"{vpn.name} did not come up: {late}{tail(logs)}") from late
        if not command:
            say(f"{vpn.title} is up in {up.setup_s:.2f} s; host1 reaches host2 at {up.address}")
        argv = ["bash", "-c", command] if command else ["bash", "-i"]
        environment = {"TERM": os.environ.get("TERM", "dumb"), "PS1": f"{node}# ", "HOME": "/root", "PATH": PATH}
        settings = [f"{name}={value}" for name, value in environment.items()]
        code = subprocess.call(lab.nodes[node].argv("env", "-i", *settings, *argv, tty=True))
        return exit_code(code)


def exit_code(returned: int) -> int:
    """The exit code that a shell would give: 128 and the signal's number where a signal ended the command."""
    return 128 - returned if returned < 0 else returned
