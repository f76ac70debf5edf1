"""What a real path does to a tunnel: it marks, overtakes, repeats, loses, blocks and cuts. One verdict a probe, each
with its positive control in the same trial."""
