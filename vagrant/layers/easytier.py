#!/usr/bin/python3
"""An EasyTier node, as its file of JSON says, until it is ended: easytier-node FILE. Prints its version, then a line of
JSON for each event."""

import json
import sys
from pathlib import Path

from easytier_pyo3 import Node, version

if sys.argv[1:] == ["--version"]:
    sys.exit(print(f"easytier {version()}"))
node = Node(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
node.start()
while True:
    if event := node.next_event(60.0):
        print(json.dumps(event), flush=True)
