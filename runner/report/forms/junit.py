"""What a CI shows as test cases, as JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from runner.data.streams import visible_text
from runner.design.blocks import Check

COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def junit_text(what: str, suites: Mapping[str, Sequence[Check]]) -> str:
    """Suites of checks, with control characters as text."""
    root = ElementTree.Element("testsuites", name=what)
    for title, checks in suites.items():
        counts = {name: str(sum(check.ended == kind for check in checks)) for name, kind in COUNTS.items()}
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": visible_text(title), **counts, "tests": str(len(checks))}
        )
        for check in checks:
            about = {"classname": visible_text(check.about)} if check.about else {}
            case = ElementTree.SubElement(suite, "testcase", about | {"name": visible_text(check.name)})
            if check.ended != "passed":
                ElementTree.SubElement(case, check.ended, message=visible_text(check.words))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
