"""Each reader of a machine's answer, given what no machine says: it names the machine, soon, and in one sentence."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from runner.data.errors import VpnevalError
from runner.lab.node import Completed
from runner.lab.node.answers import links, number, routes, sections
from runner.lab.node.lines import MOST_ANSWER
from runner.lab.readings import seen
from runner.lab.readings.loads import LoadWatch

LIES = {
    "nothing": "",
    "half a line": '{"a": ',
    "no end": "[" * 200_000,
    "null": "null",
    "a number": "7",
    "a text": '"x"',
    "a list": "[1, 2]",
    "a list of lists": "[[[]]]",
    "another object": '{"../../etc/passwd": "$(touch OWNED)"}',
    "a list of objects": '[{"ifname": "../x", "dst": "$(id)"}]',
    "no number": "[NaN, Infinity]",
    "a long number": "9" * 5_000,
    "no UTF-8": "\ufffd" * 100,
    "zeros": "\0" * 1000,
    "9 MiB of lists": "[" + "[]," * (3 << 20) + "[]]",
    "64 MiB": "x" * (64 << 20),
}


class Liar:
    """A machine that says one thing, whatever it is asked."""

    name = "gw1"

    def __init__(self, said: str) -> None:
        self.said = said

    def run(self, *argv: str, **how: Any) -> Completed:
        return Completed(0, self.said, "")

    def write(self, *file: Any, **how: Any) -> None:
        """Nothing."""


READERS: dict[str, Callable[[Any, str], object]] = {
    "links": links,
    "routes": lambda node, said: routes(node, said.strip() and said),
    "the look at a gateway": lambda node, said: seen.everything(node, {}),
    "its counters": lambda node, said: seen.counters(node),
    "a number": lambda node, said: number(node.name, "an MTU", said),
    "sections": lambda node, said: sections(node.name, said, 4),
}
TRUE = {("routes", "nothing"), ("a number", "a number")}  # that is an answer


@pytest.mark.parametrize("reader", READERS)
def test_what_no_machine_says_is_one_sentence_that_names_it(reader: str) -> None:
    for lie, text in LIES.items():
        began = time.process_time()
        if (reader, lie) in TRUE:
            READERS[reader](Liar(text), text)
            continue
        with pytest.raises(VpnevalError, match="gw1") as refused:
            READERS[reader](Liar(text), text)
        length = len(str(refused.value))
        assert length < 1000, lie
        assert time.process_time() - began < 20, lie


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [[]], {"a": 1}, {"1": None}, {"1": {"threads": 7, "role": []}}])
def test_a_reading_of_wrong_types_names_the_machine(odd: Any) -> None:
    keys = ("at_s", "cores", "processes", "groups", "ports", "overflows", "fragments", "softnet")
    for key in keys:
        reading = {each: dict[str, Any]() for each in keys} | {"at_s": 1.0, key: odd}
        watch = LoadWatch()
        try:
            watch.add({"gw1": reading}, {"gw1": reading | {"at_s": 2.0}})
            watch.machine_loads()
        except VpnevalError as refused:
            said = str(refused)
        else:
            continue
        assert said.startswith("gw1 does not answer as it should"), said


def test_the_size_of_an_answer_is_bounded() -> None:
    assert len(LIES["9 MiB of lists"]) > MOST_ANSWER
    assert json.loads(LIES["9 MiB of lists"]), "the control: it is JSON"
