"""Security by active probes: what an attacker on the WAN can do to a live tunnel. One short file per probe.

Every probe has its positive control in the same run, and gives pass, fail, or, where the control did not come out,
inconclusive. docs/security.md explains probes, controls and limits.
"""
