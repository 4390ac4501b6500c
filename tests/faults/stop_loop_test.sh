#!/bin/bash
# A short run of stop_loop.py, with the system's Python, on a machine that may be
# busy.
set -euo pipefail
exec /usr/bin/python3 tests/faults/stop_loop.py deploy/tributary \
  "$TEST_TMPDIR" --runs 12 --seed 41 --stall 25
