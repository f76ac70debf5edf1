"""A fault campaign: random faults, each of which must end as documented.

``make campaign``; ``python -m tests.campaign --seed S --case N`` repeats one case. There are two kinds of cases:
``commands``, random command lines on run folders that something happened to, without a lab; and ``labs``, small runs
with real labs in which something goes wrong.
"""
