#!/bin/bash
# Builds and runs tests, and counts their test cases. The last line of the
# output is "N passed, N failed". Exits with an error if anything failed.
#
#   run_all.sh [--all] [--gpu] [--sanitizer=address|thread] [arguments of bazel test]
#   run_all.sh --help
#
# Runs the quick tests, or all with --all. The quick tests leave out (and do not
# build) targets with the tag "slow", and cases whose names begin with "Slow". If
# the arguments name targets or cases, all of these run. Tests that need a GPU
# are skipped if there is none. With --gpu, runs only those, and a skipped test
# counts as failed.
set -euo pipefail

# Counts the test cases in a test.xml as "passed failed skipped". Each element
# starts on a new line, in the files of GoogleTest and in those that Bazel
# writes for a test that crashed or does not use GoogleTest.
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
      Run the quick tests, of which some test each promise of Tributary.
  ./tributary test --all
      Run all tests. Those that need a GPU are skipped if there is none.
  ./tributary test //tests/server/... --test_filter=Manifest*
      Run some of them.
  ./tributary test --sanitizer=thread //tests/server/...
      Run them with ThreadSanitizer.
  ./tributary test --long simulation
      Run thousands of simulated histories.

Usage: ./tributary test [--all] [--gpu] [--sanitizer=KIND]
                        [arguments of bazel test]
       ./tributary test --long [PART...]

  --all             Run all tests, also those that take long to build or to run.
                    The default if targets or --test_filter are given.
  --gpu             Run only the tests that need a GPU; one that is skipped
                    counts as failed.
  --sanitizer=KIND  Build with a sanitizer: address (AddressSanitizer and UBSan)
                    or thread (ThreadSanitizer).
  --long            Run the tests that take hours, or the named parts: faults,
                    kills, strangers, simulation, fuzz, mutations.
  -h, --help        Print this text and exit.

Targets and other options are passed to "bazel test".'

usage() {
  echo "usage: ./tributary test [--all] [--gpu] [--sanitizer=address|thread]" \
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
quick=true
while (($# > 0)); do
  case $1 in
    -h | --help)
      echo "$help"
      exit 0
      ;;
    --all) quick=false ;;
    --gpu)
      gpu=true
      quick=false
      # In containers, the driver's library may be on this path only.
      arguments+=(--test_tag_filters=gpu --test_env=LD_LIBRARY_PATH)
      ;;
    --sanitizer=*)
      arguments+=("$(config "${1#*=}")") || usage
      ;;
    --sanitizer)
      arguments+=("$(config "${2:-}")") || usage
      shift
      ;;
    --test_filter* | --test_tag_filters*)
      arguments+=("$1")
      quick=false
      ;;
    -*) arguments+=("$1") ;;
    *)
      # The first target replaces the default, all tests.
      [[ ${targets[*]} == //... ]] && targets=()
      targets+=("$1")
      quick=false
      ;;
  esac
  shift
done
if [[ $quick == true ]]; then
  arguments+=(--test_tag_filters=-slow "--test_env=GTEST_FILTER=-Slow*")
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
third_party/system/install_packages.sh || exit 1

# Bazel's record of this run: its tests, their results, and the paths of their
# test.xml. bazel-testlogs would also contain the results of other runs.
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
  # A program can fail after its last case has passed, for example with a leak.
  if [[ $event != *'"status":"PASSED"'* ]] && ((case_failed == 0)); then
    case_failed=1
  fi
  ((passed += case_passed, failed += case_failed, skipped += case_skipped, 1))
done < <(grep '^{"id":{"testResult":' "$events" || true)

# Bazel exits with 3 if tests failed, which were counted above. Any other code
# means that some tests were not built, or that there are none.
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
