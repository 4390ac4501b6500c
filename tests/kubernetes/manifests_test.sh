#!/bin/sh
# Runs manifests_test.py with Debian's Python, which has PyYAML.
exec /usr/bin/python3 -B tests/kubernetes/manifests_test.py "$1"
