#!/bin/bash
# Copies public headers, and the headers of this repository that they include,
# to the folder from which programs include them:
#
#   copy_headers.sh FOLDER [PATH/]include/tributary/HEADER...
#
# Public headers go to FOLDER/tributary, the others to FOLDER/tributary/internal.
# The copies include each other by these paths, so that a program needs one
# folder in its include path, and none of its own headers is shadowed.
set -euo pipefail

target=$1
shift
# The repository root: empty, or external/tributary/ in another workspace.
root=${1%include/tributary/*}

g++ -std=c++17 -MM -x c++ -iquote "${root:-.}" -I "${root}include" "$@" |
  tr -s ' \\:' '\n' | grep '\.h$' | sort -u |
  while read -r header; do
    case $header in
      "${root}include/"*) copy=$target/${header#"${root}include/"} ;;
      *) copy=$target/tributary/internal/${header#"$root"} ;;
    esac
    mkdir -p "$(dirname "$copy")"
    sed -E 's#^(\#include ")((common|deploy|library|proto|server|worker)/)#\1tributary/internal/\2#' \
      "$header" >"$copy"
  done
