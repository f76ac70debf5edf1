#!/usr/bin/env bash
# Run a command on a busy machine: tests/tools/busy.sh COMMAND…
# Beside it one endless loop for each core, in a process of its own that ends with this one, however this one ends.
set -uo pipefail
for _ in $(seq "$(nproc)"); do
    setpriv --pdeathsig KILL bash -c 'while :; do :; done' &
done
loops=$(jobs -p)
"$@"
code=$?
kill $loops
exit $code
