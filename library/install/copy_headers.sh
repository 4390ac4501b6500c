#!/bin/bash
# Copies public headers, and the headers of this repository that they include,
# to the folder from which programs include them:
#
#   copy_headers.sh FOLDER [PATH/]include/tributary/HEADER...
#
# Public headers go to FOLDER/tributary. The headers that declare what they
# include go to folders below it, such as tributary/nn/graph.h; programs need not
# read those in FOLDER/tributary/internal. The copies include each other by these
# paths, so that a program needs one folder in its include path, and none of its
# own headers is shadowed.
set -euo pipefail

target=$1
shift
# The repository root: empty, or external/tributary/ in another workspace.
root=${1%include/tributary/*}

mapfile -t headers < <(
  g++ -std=c++17 -MM -x c++ -iquote "${root:-.}" -I "${root}include" "$@" |
    tr -s ' \\:' '\n' | grep '\.h$' | sort -u
)

# Prints the path of the copy of a header, which is also the path by which
# programs include it. $1 is the header's path in the repository.
installed() {
  case $1 in
    include/*) echo "${1#include/}" ;;
    common/base/* | worker/device/capture.h | worker/device/copies.h | \
      worker/device/ops/node_sum_ops.h) echo "tributary/internal/$1" ;;
    common/* | worker/*) echo "tributary/${1#*/}" ;;
    *) echo "tributary/internal/$1" ;;
  esac
}

includes=()
for header in "${headers[@]}"; do
  path=${header#"$root"}
  includes+=(-e "s#^(\#include )\"$path\"#\1\"$(installed "$path")\"#")
done
for header in "${headers[@]}"; do
  copy=$target/$(installed "${header#"$root"}")
  mkdir -p "$(dirname "$copy")"
  sed -E "${includes[@]}" "$header" >"$copy"
done
