"""What happens when it breaks: failures on purpose, and the outage that a probe stream through the tunnel sees.

``stream`` sends the probes and waits for recovery, ``loss`` turns what came into outages, ``outage`` is one failure and
what is known of it. ``breaks`` are the failures of the site-to-site lab, ``reroute`` and ``takeover`` those of the
topologies in runner/lab/shape/topologies.py. See docs/failures.md.
"""
