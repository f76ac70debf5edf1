"""Plaintext: a random marker goes through the tunnel both ways; is any part of it on the WAN in the clear?

Control: frames with markers in the clear, one from each gateway's WAN port, which the same tap must see; and the
tunnel's marker must have been delivered and answered.
"""

from runner.data.errors import MeasurementError
from runner.instruments.security.vantage import ProbeOutcome, Vantage, clear_frame, inconclusive, message, speaker_on
from runner.lab import probes
from runner.lab.node.iproute import interface
from runner.tunnel.proof import ANSWER_PORT, COMPLEMENT, MARKER_BYTES


def leak(at: Vantage) -> ProbeOutcome:
    """Is any part of a marker that crosses the tunnel readable on the WAN? It must not be."""
    for site in at.lab.sites:
        open_marker = message(64)
        gateway = at.lab.gateway(site)
        with speaker_on(gateway) as speaker:
            speaker.say(raw=clear_frame(open_marker).hex(), on=interface(gateway, site.wan_interface))
        if not at.appears(open_marker):
            return inconclusive(f"the tap did not see a marker that {site.name} sent in the clear")
    marker = message(MARKER_BYTES)
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "marker", at.address, str(ANSWER_PORT), "5")
    sent = at.lab.host1.run(*ask, input=marker.hex(), check=False, timeout=15)
    at.look()
    seen = [
        way
        for way, data in (("near to far", marker), ("far to near", marker.translate(COMPLEMENT)))
        if at.visible(data)
    ]
    on_wire = sum(len(frame.data) for frame in at.captured["near"])
    detail = {"seen": seen, "sent_bytes": 2 * MARKER_BYTES, "captured_bytes": on_wire}
    if seen:
        return ProbeOutcome("fail", f"plaintext on the WAN, {' and '.join(seen)}", "it was seen", detail)
    if sent.code != 0:
        raise MeasurementError(f"the marker did not come through the tunnel: {sent.stderr.strip()[-200:]}")
    if on_wire < 2 * MARKER_BYTES:
        return inconclusive(f"the tap saw {on_wire} bytes of {2 * MARKER_BYTES} sent: it proves nothing")
    control = "the tap saw a clear marker from each gateway, and the tunnel's was delivered and answered"
    return ProbeOutcome("pass", "no part of the marker was on the WAN", control, detail)
