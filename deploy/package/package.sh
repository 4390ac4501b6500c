#!/bin/bash
# Builds the packages:
#
#   ./tributary package [--output DIR]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

readonly help='Builds the packages of this version: one for Debian 12 (.deb), and an archive
(.tar.gz) that carries its libraries and runs on any Linux on x86-64 whose C
library is at least as new as that of this machine. See docs/install.md.

Examples:
  ./tributary package
      Build both packages in this folder.
  ./tributary package --output dist
      Build both packages in the folder dist.

Usage: ./tributary package [--output DIR]

  --output DIR  Folder of the packages. It is created if it is missing.
                Default: this folder.
  -h, --help    Print this text and exit.'

fail_usage() {
  echo "tributary: $1; see ./tributary package --help" >&2
  exit 2
}

output=.
while (($# > 0)); do
  case $1 in
    -h | --help)
      echo "$help"
      exit 0
      ;;
    --output=*) output=${1#*=} ;;
    --output)
      (($# > 1)) || fail_usage "--output needs a folder"
      output=$2
      shift
      ;;
    *) fail_usage "package: unknown argument \"$1\"" ;;
  esac
  shift
done
[[ -n $output ]] || fail_usage "--output needs a folder"
mkdir -p "$output" || exit 1
output=$(cd "$output" && pwd -P)
[[ -w $output ]] || {
  echo "tributary: cannot write to $output; choose another --output" >&2
  exit 1
}

"$root/third_party/system/install_packages.sh" dpkg-dev || exit 1
cd "$root"
# The checkout may belong to a different user.
if commit=$(git -c safe.directory='*' describe --always --abbrev=12 --exclude='*' --dirty 2>/dev/null); then
  commit=--define=commit=$commit
fi
bazel build ${commit:+"$commit"} //deploy/package:archive //deploy/package:deb >&2 || {
  echo "tributary: the build failed, see above" >&2
  exit 1
}
folder=$(bazel info bazel-bin)/deploy/package
# The folder may have packages of earlier versions.
version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' version.bzl)
for package in "$folder/tributary_${version}_"*.deb "$folder/tributary-$version-"*.tar.gz; do
  install --mode=644 "$package" "$output/"
  echo "$output/$(basename "$package")"
done
