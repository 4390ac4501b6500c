#!/bin/bash
# Tests and measures Tributary on a machine that has a GPU, its driver and CUDA,
# but neither a compiler nor Bazel. tests/gpu_bundle.sh makes the folder that
# contains this script. Needs bash, coreutils, tar and gzip.
#
#   run_gpu.sh [--minutes N] [--report FOLDER] [PART...]
#   run_gpu.sh --help
#
# Each part runs in processes of its own, with a time limit. The report is
# written before and after each part, so it exists whatever ends this script.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
readonly here
source "$here/report.sh"
source "$here/parts.sh"

readonly help='Tests and measures Tributary on a machine with a GPU.

Usage: run_gpu.sh [--minutes N] [--limit SECONDS] [--report FOLDER] [PART...]

  --minutes N       Time for all parts together. Default 60. With fewer minutes
                    the limit of each part shrinks in proportion.
  --limit SECONDS   Upper bound for the limit of each part.
  --report FOLDER   Folder for report.md, report.json and the logs. Default:
                    gpu_report in the current folder. Must not exist.
  -h, --help        Print this text and exit.

Parts, in the order in which they run:'

minutes=60
most_seconds=3600
report=gpu_report
parts=()

usage() {
  echo "run_gpu.sh: $1; see run_gpu.sh --help" >&2
  exit 2
}

print_help() {
  local part
  echo "$help"
  for part in "${PARTS[@]}"; do
    printf '  %-12s %4s s  %s\n' "$part" "${LIMITS[$part]}" "${ABOUT[$part]}"
  done
}

read_arguments() {
  while (($# > 0)); do
    case $1 in
      --minutes | --limit | --report)
        (($# > 1)) || usage "$1 needs a value"
        case $1 in
          --minutes) minutes=$2 ;;
          --limit) most_seconds=$2 ;;
          --report) report=$2 ;;
        esac
        shift
        ;;
      -h | --help)
        print_help
        exit 0
        ;;
      -*) usage "unknown option $1" ;;
      *)
        [[ -n ${LIMITS[$1]:-} ]] || usage "there is no part $1"
        parts+=("$1")
        ;;
    esac
    shift
  done
  ((${#parts[@]} > 0)) || parts=("${PARTS[@]}")
  [[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] ||
    usage "--minutes: $minutes is not a number from 1 to 9999"
  [[ $most_seconds =~ ^[1-9][0-9]{0,4}$ ]] ||
    usage "--limit: $most_seconds is not a number from 1 to 99999"
}

# Prints the limit of a part in seconds; 0 if no time is left.
limit_of() {
  local limit=${LIMITS[$1]} left=$((60 * minutes - SECONDS))
  if ((minutes < 60)); then limit=$((limit * minutes / 60 + 1)); fi
  if ((limit > most_seconds)); then limit=$most_seconds; fi
  if ((limit > left)); then limit=$left; fi
  echo $((limit > 0 ? limit : 0))
}

# Runs one part, and records what became of it.
run_part() {
  local part=$1 limit start code
  local state=$report/parts/$part
  limit=$(limit_of "$part")
  echo "$limit" >"$state/limit"
  if ((limit == 0)); then
    record "$part" skipped 0 "no time is left of $minutes minutes"
    return
  fi
  record "$part" running 0 ""
  write_report
  start=$SECONDS
  # A process group of its own: the limit ends all processes of the part.
  timeout --kill-after=5 "$limit" \
    bash "$here/parts.sh" "$part" "$state" "$programs" \
    >"$state/log" 2>&1 </dev/null
  code=$?
  conclude "$part" "$code" "$((SECONDS - start))" "$limit"
}

# Turns the exit status of a part into its outcome.
conclude() {
  local part=$1 code=$2 seconds=$3 limit=$4 reason=""
  local state=$report/parts/$part
  [[ -f $state/reason ]] && reason=$(<"$state/reason")
  case $code in
    0) record "$part" passed "$seconds" "$reason" ;;
    77) record "$part" skipped "$seconds" "$reason" ;;
    124 | 137)
      record "$part" failed "$seconds" "stopped at its limit of $limit s"
      ;;
    *) record "$part" failed "$seconds" "${reason:-exit status $code}" ;;
  esac
}

unpack() {
  programs=$(mktemp -d "${TMPDIR:-/tmp}/tributary-gpu.XXXXXX") || exit 1
  trap 'rm -rf --one-file-system "$programs"' EXIT
  # Ctrl-C ends the current part and this script; the report is complete up to
  # here.
  trap 'echo "run_gpu.sh: interrupted" >&2; exit 130' INT TERM HUP
  tar -xzf "$here/programs.tar.gz" -C "$programs" || exit 1
}

main() {
  local part
  read_arguments "$@"
  if ! mkdir "$report"; then
    echo "run_gpu.sh: choose another folder with --report" >&2
    exit 2
  fi
  report=$(cd "$report" && pwd -P)
  for part in "${parts[@]}"; do
    mkdir -p "$report/parts/$part"
    record "$part" "not run" 0 ""
  done
  unpack
  for part in "${parts[@]}"; do
    run_part "$part"
    write_report
    echo "$(outcome_of "$part") $part, $(seconds_of "$part") s" \
      "$(reason_of "$part")"
  done
  echo "report: $report/report.md and report.json"
  ((failures == 0))
}

main "$@"
