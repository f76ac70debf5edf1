"""docs/add-a-question.md is true: its question, copied, with the commands that it says."""

import re
import shlex
import shutil
from pathlib import Path

from runner.data.store import load_run
from runner.lab.software.image import Image
from tests.lab.test_add_an_instrument import ROOT, follow

DOCUMENT = (ROOT / "docs" / "add-a-question.md").read_text()


def test_the_page_asks_a_question_of_its_own(image: Image, tmp_path: Path) -> None:
    for file in re.findall(r"^    cp (\S+) \.$", DOCUMENT, re.MULTILINE):
        shutil.copy(ROOT / file, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"back_first.py"}
    commands = re.findall(r"^    (vpneval .+)$", DOCUMENT, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["run", "report"]
    done = follow(commands[0].replace("/tmp/back", "run"), tmp_path)
    assert re.search(r"(openvpn|wireguard_go) comes back first after a restart", done)
    run, trials = load_run(tmp_path / "run")
    assert run.invocations[-1].asked
    assert run.invocations[-1].asked.question == "./back_first.py"
    assert {trial.status for trial in trials} == {"ok"}
    assert "comes back first after a restart" in follow(commands[1].replace("/tmp/back", "run"), tmp_path)
