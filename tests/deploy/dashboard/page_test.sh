#!/bin/bash
# Runs page_test.py with the system's Python.
set -euo pipefail
exec /usr/bin/python3 tests/deploy/dashboard/page_test.py deploy/tributary
