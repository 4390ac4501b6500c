#!/bin/bash
# Tests the tests: builds the program with a bug, and expects a test to fail. Each
# bug is a patch in this folder, which starts with the test that must fail:
#   Target: //tests/...
#   Filter: SUITE.NAME
# Prints "caught by TARGET: SUITE.NAME" or "NOT CAUGHT" for each patch. Exits with
# an error if a bug is not caught, or a patch cannot be applied or built.
#
#   tests/mutations/run.sh [NAME]...    (without the .patch; default: all)
#
# Works on a copy of the files that git tracks. MUTATION_BAZEL, if set, replaces
# the command bazel, including startup options; MUTATION_JOBS is its --jobs.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
read -ra bazel <<<"${MUTATION_BAZEL:-bazel}"
flags=(--noshow_progress)
if [[ -n ${MUTATION_JOBS:-} ]]; then flags+=("--jobs=$MUTATION_JOBS"); fi

names=("$@")
if ((${#names[@]} == 0)); then
  for patch in tests/mutations/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

tree=$(mktemp -d)
cleanup() {
  (cd "$tree/source" && "${bazel[@]}" --output_base="$tree/output" shutdown) || true
  chmod -R u+w "$tree" && rm -rf "$tree"
} >/dev/null 2>&1
trap cleanup EXIT
mkdir "$tree/source"
git ls-files -z | xargs -0 cp --parents -t "$tree/source"
cp -r tests/mutations "$tree/"
cd "$tree/source"

run_bazel() { "${bazel[@]}" --output_base="$tree/output" "$@"; }

# Prints the value of a field of a patch's header.
field() { sed -n "s/^$2: //p" "$tree/mutations/$1.patch"; }

# Runs a target's tests that match a filter. Writes their output to $tree/log.
run_test() {
  local result=0 log
  run_bazel test "${flags[@]}" --nocache_test_results --test_filter="$2" \
    --test_sharding_strategy=disabled "$1" >"$tree/log" 2>&1 || result=$?
  log=$(run_bazel info bazel-testlogs 2>/dev/null)/$(tr : / <<<"${1#//}")/test.log
  if [[ -f $log ]]; then cp "$log" "$tree/log"; fi
  return "$result"
}

# Lets a patch name the files that it changes where they are now: a file that has
# moved has kept its name.
follow_moves() {
  local path now
  while read -r path; do
    [[ -f $path ]] && continue
    now=$(find . -path ./tests -prune -o -name "$(basename "$path")" -print)
    sed -i "s|\([ab]\)/$path|\1/${now#./}|g" "$1"
  done < <(sed -n 's|^+++ b/||p' "$1")
}

failed=0
fail() {
  echo "$1"
  failed=1
}

for name in "${names[@]}"; do
  patch=$tree/mutations/$name.patch
  if [[ ! -f $patch ]]; then
    fail "$name: there is no such patch"
    continue
  fi
  follow_moves "$patch"
  target=$(field "$name" Target)
  filter=$(field "$name" Filter)
  if ! run_test "$target" "$filter"; then
    fail "$name: $target: $filter does not pass without the mistake"
    tail -n 20 "$tree/log" >&2
    continue
  fi
  if ! grep -q '^\[       OK \]' "$tree/log"; then
    fail "$name: $target has no test called $filter any more"
    continue
  fi
  if ! patch --strip=1 --force --dry-run --quiet <"$patch" >/dev/null; then
    fail "$name: THE PATCH DOES NOT APPLY ANY MORE: make it anew"
    continue
  fi
  patch --strip=1 --force --quiet <"$patch"
  if ! run_bazel build "${flags[@]}" "$target" >"$tree/log" 2>&1; then
    fail "$name: DOES NOT BUILD"
    tail -n 20 "$tree/log" >&2
  elif run_test "$target" "$filter"; then
    fail "$name: NOT CAUGHT by $target: $filter"
  else
    caught=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' "$tree/log" | head -n 1)
    echo "$name: caught by $target: ${caught:-$filter (it crashed)}"
  fi
  patch --strip=1 --force --quiet --reverse <"$patch"
done
exit "$failed"
