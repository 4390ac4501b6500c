#!/bin/bash
# Runs one fuzz target: run.sh NAME SECONDS [arguments of libFuzzer]
# Exits with an error if an input crashes the program.
set -euo pipefail

if (($# < 2)); then
  echo "usage: tests/fuzz/run.sh NAME SECONDS [arguments of libFuzzer]" >&2
  exit 2
fi
name=$1 seconds=$2
shift 2
cd "$(dirname "$0")/../.."

bazel build --config=fuzz "//tests/fuzz:${name}_fuzz"
program=$(bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz/${name}_fuzz
found=$(mktemp -d)
# libc++ and libstdc++ annotate the ends of containers only in instrumented code,
# and the system's libraries are not instrumented.
export ASAN_OPTIONS=detect_container_overflow=0
echo "saving findings to $found"
"$program" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$found/" "$@" \
  "$found" "tests/fuzz/corpus/$name"
