"""Factors that several instruments share."""

from __future__ import annotations

from runner.data.levels import BY_PROFILE, Levels

STREAMS = Levels(("1", "2", "4", "8", "16", "32", "64"), default="1", told="{} streams".format, usual="1")
# Of the TCP streams that the instrument sends. Absent: the lab's default, CUBIC.
CONGESTION = Levels(("cubic", "bbr", "reno", "htcp", "vegas", "westwood"), told=str, usual="cubic")
# An inner IPv4 packet with a UDP header (RFC 768), whole.
PACKET_BYTES = Levels(("46", "64", "128", "256", "512", "1024", "1400", "1500"), (28, 65535), "64", told="{} B".format)
BURST_PACKETS = Levels(("1", "64"), (1, 64))  # absent: the generator's usual
FRAGMENTATION = Levels(("refuse", "allow"), default=BY_PROFILE, told="".format)
