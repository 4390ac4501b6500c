#!/bin/bash
# Runs tensorboard_test.py with the system's Python.
set -euo pipefail
exec /usr/bin/python3 tests/deploy/tensorboard/tensorboard_test.py \
  deploy/tributary
