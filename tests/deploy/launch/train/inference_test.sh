#!/bin/bash
# Runs inference_test.py with the system's Python.
set -euo pipefail
exec /usr/bin/python3 tests/deploy/launch/train/inference_test.py deploy/tributary
