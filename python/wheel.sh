#!/bin/bash
# Builds the wheel of the Python package:
#
#   ./tributary wheel [--output DIR]
set -euo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

if [[ ${1:-} =~ ^(-h|--help)$ ]]; then
  echo "usage: tributary wheel [--output DIR]"
  echo "Builds the wheel of the Python package in DIR (default: this folder)."
  exit 0
fi
"$here/../third_party/system/install_packages.sh"
(
  cd "$here/.."
  bazel build //library/c_api:libtributary_c.so //python:tributary_program >&2
) || {
  echo "tributary: the build failed, see above" >&2
  exit 1
}
binaries=$(cd "$here/.." && bazel info bazel-bin)
exec python3 "$here/build_wheel.py" \
  --library "$binaries/library/c_api/libtributary_c.so" \
  --program "$binaries/python/tributary_program" "$@"
