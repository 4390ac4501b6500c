#!/bin/bash
# Runs the tests that take hours, which inject faults of every kind. The last
# line of the output is "N passed, N failed". Exits with an error if anything
# failed.
#
#   run_long.sh [PART...]
#
# Runs all parts by default: faults kills misdeeds python stops strangers
# simulation fuzz mutations.
# The first line names the folder to which each part writes its log and files.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
cd "$root"

folder=$(mktemp -d "${TMPDIR:-/tmp}/tributary-long-XXXXXX")
readonly folder
readonly program=bazel-bin/tests/faults/tributary_with_failpoints

# Covers 30 failpoints, 3 actions, 2 models and 3 seeds.
run_faults_part() {
  bazel-bin/tests/faults/run_faults "$program" "$folder/faults.d"
}

# Takes ten minutes with a kill every 5 s, and ten with a kill every 29 s.
run_kills_part() {
  bazel-bin/tests/faults/kill_loop "$program" "$folder/kills.d" \
    --steps 210000 --every 5 --seldom 29
}

# Takes about ten minutes. Debian's PyTorch is skipped if it is not installed.
run_python_part() {
  local work=$folder/python.d
  ./tributary wheel --output "$work"
  /usr/bin/python3 -m venv --system-site-packages "$work/venv"
  "$work/venv/bin/pip" install --no-index "$work"/tributary-*.whl
  TEST_TMPDIR=$work TRIBUTARY_STEPS=200 TRIBUTARY_KILLS=20 \
    "$work/venv/bin/python" tests/python/plain_pytorch_test.py
}

# Takes about ten minutes.
run_stops_part() {
  python3 tests/faults/stop_loop.py bazel-bin/deploy/tributary \
    "$folder/stops.d" --runs 200
}

run_strangers_part() {
  TRIBUTARY_STRANGERS=5000 bazel test //tests/faults:strangers_test \
    --test_output=all --test_env=TRIBUTARY_STRANGERS --test_timeout=1800 \
    --cache_test_results=no
}

run_misdeeds_part() {
  TRIBUTARY_ALL_MISDEEDS=1 bazel test //tests/faults:misdeeds_test \
    --test_output=all --test_env=TRIBUTARY_ALL_MISDEEDS \
    --cache_test_results=no
}

run_simulation_part() {
  bazel-bin/tests/simulation/simulate --histories 10000 --seed 1 --jobs 2
}

# Takes ten minutes per fuzz target.
run_fuzz_part() {
  local source
  for source in tests/fuzz/*_fuzz.cc; do
    tests/fuzz/run.sh "$(basename "$source" _fuzz.cc)" 600
  done
}

run_mutations_part() {
  tests/mutations/run.sh
}

parts=("$@")
if ((${#parts[@]} == 0)); then
  parts=(faults kills misdeeds python stops strangers simulation fuzz mutations)
fi
for part in "${parts[@]}"; do
  if ! declare -F "run_${part}_part" >/dev/null; then
    echo "usage: ./tributary test --long" \
      "[faults|kills|misdeeds|python|stops|strangers|simulation|fuzz|mutations]..." >&2
    exit 2
  fi
done

third_party/system/install_packages.sh
bazel build //deploy:tributary //tests/faults/... //tests/simulation/...
echo "writing logs to $folder"
passed=0
failed=0
for part in "${parts[@]}"; do
  mkdir -p "$folder/$part.d"
  start=$SECONDS
  if "run_${part}_part" >"$folder/$part.log" 2>&1; then
    outcome=passed
    passed=$((passed + 1))
  else
    outcome=FAILED
    failed=$((failed + 1))
  fi
  echo "$outcome $part, $((SECONDS - start)) s: $(tail -n 1 "$folder/$part.log")"
done
echo "$passed passed, $failed failed"
((failed == 0))
