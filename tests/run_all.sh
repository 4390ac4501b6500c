#!/bin/bash
# Builds and runs tests, and counts their cases: ends with the line
# "N passed, N failed", and with an error if anything failed.
#
#   run_all.sh [--gpu] [--sanitizer=address|thread] [arguments of bazel test]
#   run_all.sh --help
#
# Without targets among the arguments, all tests; tests that need a GPU are
# skipped where there is none. With --gpu, those alone, and skipping is failing.
set -euo pipefail

# Counts the cases in a test.xml, as "passed failed skipped". GoogleTest and
# Bazel (for a test that wrote none: it crashed, or is no GoogleTest) begin a
# line with each element.
readonly count_cases='
  function finish() {
    if (state != "") count[state]++
    state = ""
  }
  /^ *<testcase / {
    finish()
    state = /status="notrun"/ ? "" : "passed"
  }
  /^ *<skipped/ || / result="skipped"/ { if (state != "") state = "skipped" }
  /^ *<(failure|error)[ >]/ || /<testcase .*<(failure|error)[ >]/ {
    state = "failed"
  }
  END {
    finish()
    print count["passed"] + 0, count["failed"] + 0, count["skipped"] + 0
  }'

readonly help='Builds and runs tests. The last line is "N passed, N failed".

Examples:
  ./tributary test
      Every test. Those that need a GPU are skipped where there is none.
  ./tributary test //tests/server/... --test_filter=Manifest*
      Some of them.
  ./tributary test --sanitizer=thread //tests/server/...
      The same with ThreadSanitizer.
  ./tributary test --long simulation
      Thousands of simulated histories.

Usage: ./tributary test [--gpu] [--sanitizer=KIND] [arguments of bazel test]
       ./tributary test --long [PART...]

  --gpu             Run only the tests that need a GPU; one that is skipped
                    counts as failed.
  --sanitizer=KIND  Build with a sanitizer: address (AddressSanitizer and UBSan)
                    or thread (ThreadSanitizer).
  --long            Run what takes hours, all of it or the named parts: faults,
                    kills, strangers, simulation, fuzz, mutations.
  -h, --help        Print this and exit.

Targets and options that are not listed go to "bazel test".'

usage() {
  echo "usage: ./tributary test [--gpu] [--sanitizer=address|thread]" \
    "[arguments of bazel test]; see ./tributary test --help" >&2
  exit 2
}

config() {
  case $1 in
    address) echo --config=asan ;;
    thread) echo --config=tsan ;;
    *) return 1 ;;
  esac
}

arguments=()
targets=(//...)
gpu=false
while (($# > 0)); do
  case $1 in
    -h | --help)
      echo "$help"
      exit 0
      ;;
    --gpu)
      gpu=true
      # In containers, the driver's library may be found by this path alone.
      arguments+=(--test_tag_filters=gpu --test_env=LD_LIBRARY_PATH)
      ;;
    --sanitizer=*)
      arguments+=("$(config "${1#*=}")") || usage
      ;;
    --sanitizer)
      arguments+=("$(config "${2:-}")") || usage
      shift
      ;;
    -*) arguments+=("$1") ;;
    *)
      # The first target replaces "all".
      [[ ${targets[*]} == //... ]] && targets=()
      targets+=("$1")
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
third_party/system/install_packages.sh || exit 1

# Bazel's record of this run: which tests it looked at, how they ended, and
# where their test.xml is. bazel-testlogs also holds those of other runs.
events=$(mktemp)
trap 'rm -f "$events"' EXIT
result=0
bazel test --build_tests_only --keep_going \
  --build_event_json_file="$events" \
  "${arguments[@]}" -- "${targets[@]}" || result=$?

passed=0 failed=0 skipped=0
while read -r event; do
  xml=$(sed -n 's|.*"name":"test.xml","uri":"file://\([^"]*\)".*|\1|p' \
    <<<"$event")
  case_passed=0 case_failed=0 case_skipped=0
  if [[ -f $xml ]]; then
    read -r case_passed case_failed case_skipped \
      < <(awk "$count_cases" "$xml")
  fi
  # A program can fail after its last case has passed (a leak, say).
  if [[ $event != *'"status":"PASSED"'* ]] && ((case_failed == 0)); then
    case_failed=1
  fi
  ((passed += case_passed, failed += case_failed, skipped += case_skipped, 1))
done < <(grep '^{"id":{"testResult":' "$events" || true)

# Bazel ends with 3 where tests failed: those are counted. Anything else means
# that some were not built, or that there are none.
if ((result != 0 && (result != 3 || failed == 0))); then
  echo "tributary: not all tests ran; bazel test ended with $result" >&2
  ((failed += 1))
fi
if [[ $gpu == true ]] && ((passed + failed + skipped == 0)); then
  echo "tributary: no test needs a GPU in a build without CUDA" >&2
  failed=1
elif [[ $gpu == true ]] && ((skipped > 0)); then
  echo "tributary: no GPU that CUDA can use: $skipped skipped" >&2
  ((failed += skipped))
elif ((skipped > 0)); then
  echo "$skipped skipped"
fi
echo "$passed passed, $failed failed"
((failed == 0))
