#!/bin/bash
# Runs bert_test.py with the system's Python.
set -euo pipefail
exec /usr/bin/python3 tests/deploy/launch/train/bert_test.py deploy/tributary
