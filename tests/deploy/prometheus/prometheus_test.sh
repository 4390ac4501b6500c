#!/bin/bash
# Runs prometheus_test.py with the system's Python.
set -euo pipefail
exec /usr/bin/python3 tests/deploy/prometheus/prometheus_test.py \
  deploy/tributary deploy/prometheus tests/deploy/prometheus/rules_test.yml
