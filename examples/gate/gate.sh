#!/bin/sh
# The gate in plain shell: everything after the name goes to `calibrant check`.
#
#   sh gate.sh predictions.parquet --score p --label bad --by country --fail-on segments
#
# Exits with 0 if the probabilities are calibrated or there are too few labels to tell, with 1 if they are off, and with
# the exit code of the command if the check could not run.

status=0
calibrant check "$@" || status=$?

case $status in
  0) echo "gate: open" ;;
  10)
    echo "gate: closed, the probabilities are off by more than the tolerance" >&2
    exit 1
    ;;
  12)
    echo "gate: closed, the probabilities are significantly off" >&2
    exit 1
    ;;
  13)
    echo "gate: closed, the probabilities of a segment or a period are off" >&2
    exit 1
    ;;
  11) echo "gate: open, but more labels are needed to tell" >&2 ;;
  *)
    echo "gate: the check did not run (exit code $status)" >&2
    exit "$status"
    ;;
esac
