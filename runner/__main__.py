"""``python -m runner`` is ``vpneval``."""

from runner.cli.commands import main

main()
