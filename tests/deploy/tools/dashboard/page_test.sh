#!/bin/bash
# Runs a test in Python, such as page_test, with the system's Python.
set -euo pipefail
exec /usr/bin/python3 "tests/deploy/tools/dashboard/$1.py" deploy/tributary
