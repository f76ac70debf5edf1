"""Plugins that misbehave: what their files say."""

from __future__ import annotations

import random

from tests.lab.test_secrets import KEYS

NEIGHBOUR = "from vpns.none import PlainIp\nclass Neighbour(PlainIp):\n    reference = False\n"
BROKEN = f"""import sys
from runner.data.errors import *
from runner.data.trials import Evidence
from runner.vpn.lifecycle import *
from runner.vpn.plugin import *
from vpns.none import PlainIp
KEYS = {KEYS!r}
class Strange(Exception):
    def __str__(self):
        raise KeyError
class Broken(PlainIp):
    reference = False
    def secrets(self, ca, sites):
        return dict(KEYS)
    def render(self, me, peers, params, secrets):
        return {{"/etc/keys": " ".join(secrets.values())}}
    def start(self, node, me, peers, params):
        node.spawn("sh", "-c", "cat /etc/keys; exec sleep 1000", log="brokend")
        super().start(node, me, peers, params)
class Worse(Broken):
"""
EARLY = ("__init__", "supports", "secrets")  # called before anybody but the plugin can know its keys
METHODS = ("__init__", "supports", "secrets", "render", "start", "is_up", "evidence", "lifecycle", "encapsulation")
ERRORS = (
    *("ValueError('no')", "ValueError(str(KEYS))", "OSError(28, 'full')", "OSError(5, 'broken')", "SystemExit(0)"),
    *("SystemExit('x')", "GeneratorExit", "StopIteration", "RecursionError", "MemoryError", "BaseException", "Strange"),
    *("UsageError('u')", "CannotRunHere('c')", "MeasurementError('m')", "TooLongError('t')", "Interrupted('i')"),
    *("CommandError('gw1', ['x'], 1, str(KEYS))", "ProofError('p')", "TimeoutError('t')", "AssertionError"),
)
VALUES = (
    *(
        "None",
        "3",
        "'x'",
        "''",
        "[]",
        "{}",
        "{'a': 3}",
        "{3: 'a'}",
        "{'a': '\\udcff'}",
        "{'a': 'x'}",
        "b'x'",
        "object()",
    ),
    *("True", "float('nan')", "Evidence()", "Evidence(data_path='magic')", "Evidence(data_path='userspace: x')"),
    *(
        "Evidence(cipher='aes-256-gcm', data_path='kernel: x')",
        "Unsupported('\\x1b[2Jno')",
        "Unsupported(3)",
        "Lifecycle()",
    ),
    *(
        "Evidence(data_path='kernel: \\x1b[31m', facts={'keys': str(KEYS)})",
        "Lifecycle(standby=3)",
        "[self]",
        "super()",
    ),
)
DOES = (
    "print('{', chr(27) + '[2J', KEYS)",
    "sys.stderr.write(str(KEYS) + chr(7))",
    "args[0].run('sh', '-c', 'echo $0; exit 3', str(KEYS))",
    "args[0].run('no-such-command')",
    "args[0].run('a\\0b')",
    "args[0].run()",
    "args[0].write('/proc/nowhere/x', 'x')",
    "args[0].write('/etc/x', '\\udcff')",
    "args[0].spawn('sh', '-c', 'yes $0 | head -c 3000000', str(KEYS), log='loud')",
    "args[0].spawn('sh', '-c', 'echo x', log='../../../x')",
    "args[0].spawn('sh', '-c', 'exit 3', log='a/b')",
    "args[0].read_log('never')",
    "args[0].nothing()",
)
ATTRIBUTES = (
    *(
        "title = 3",
        "title = chr(27) + '[2J'",
        "title = ''",
        "dataplane = 'magic'",
        "dataplane = 'userspace'",
        "carries = 7",
    ),
    *("comparable = {}", "comparable = {'cipher': 'x', 'integrity': 'y', 'compression': 'z'}", "offers = None"),
    *(
        "software = Software({'no-such-tool': 'x'})",
        "software = Software({}, layer='nowhere')",
        "declared = 1",
        "note = []",
    ),
    *(
        "ports = 4500",
        "ports = ''",
        "ports = 'udp/0 x'",
        "modules = ['esp4']",
        "modules = chr(27)",
        "outer_ipv6 = 'no'",
    ),
    *("start = 1", "offers = Offers({'none': 'x'}, {}, {})", "name = 'none'", "transport = '<b>'", "reference = 'yes'"),
)
# It never returns; from when on, the file beside the plugin's tells.
ENDLESS = "open(__file__ + '.begun', 'w').close()\n        while True: pass"


def worse(body: str) -> str:
    """A plugin's file whose class has this body."""
    return BROKEN + body


def misbehaviour(rng: random.Random) -> str:
    """What stands in the class of ``BROKEN``: an attribute, or a method that raises, returns or does something, or does
    not end."""
    method, how, many = rng.choice(METHODS), rng.random(), "*args, **named"
    if how < 0.2:
        return f"    {rng.choice(ATTRIBUTES)}\n"
    what = f"raise {rng.choice(ERRORS)}" if how < 0.55 else f"return {rng.choice(VALUES)}"
    if how > 0.8:
        method = rng.choice(("supports", "secrets", "start", "is_up", "evidence"))
        what = f"{rng.choice(DOES)}; return super().{method}(*args, **named)"
    if rng.random() < 0.05:
        what = ENDLESS
    if method in EARLY:
        what = what.replace("KEYS", "'no key'")
    return f"    def {method}(self, {many}):\n        {what}\n"
