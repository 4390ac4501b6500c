#!/bin/bash
# Builds the library and the program, and installs them:
#
#   install.sh --prefix DIR [--uninstall]
#   install.sh --help
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# The installed files, relative to the prefix.
readonly list=share/tributary/files.txt

readonly help='Builds Tributary and installs the program, the C++ library, its headers, files
for CMake and pkg-config, and examples. See docs/cpp.md.

Examples:
  ./tributary install --prefix /usr/local
      Install for all users of this machine.
  ./tributary install --prefix $HOME/tributary --uninstall
      Remove what was installed there.

Usage: ./tributary install --prefix DIR [--uninstall]

  --prefix DIR  Absolute path of the folder to install to. It is created if it
                is missing. It can be moved later.
  --uninstall   Remove the installed files, which
                DIR/share/tributary/files.txt lists.
  -h, --help    Print this text and exit.

If the variable DESTDIR is set, files are installed to DESTDIR/DIR, for example
to make a package.'

fail_usage() {
  echo "tributary: $1; see ./tributary install --help" >&2
  exit 2
}

fail() {
  echo "tributary: $1" >&2
  exit 1
}

prefix=
uninstall=false
while (($# > 0)); do
  case $1 in
    -h | --help)
      echo "$help"
      exit 0
      ;;
    --prefix=*) prefix=${1#*=} ;;
    --prefix)
      (($# > 1)) || fail_usage "--prefix needs a folder"
      prefix=$2
      shift
      ;;
    --uninstall) uninstall=true ;;
    *) fail_usage "install: unknown argument \"$1\"" ;;
  esac
  shift
done
[[ -n $prefix ]] ||
  fail_usage "install: --prefix is missing; name a folder, such as --prefix /usr/local"
[[ $prefix == /* ]] ||
  fail_usage "--prefix must be an absolute path, but it is \"$prefix\""
target=${DESTDIR:-}$prefix

# Removes the files with the names in the standard input, and the folders that
# this leaves empty. Names that leave the target are ignored.
remove_files() {
  local name
  while IFS= read -r name; do
    [[ $name == /* || $name == *..* ]] && continue
    rm -f "$target/$name" || fail "cannot remove $target/$name"
    (cd "$target" && rmdir --parents --ignore-fail-on-non-empty \
      "$(dirname "$name")" 2>/dev/null) || true
  done
}

# Fails unless files can be created in the target, or in its nearest parent that
# exists.
check_writable() {
  local existing=$target
  while [[ ! -e $existing ]]; do existing=$(dirname "$existing"); done
  [[ -d $existing ]] ||
    fail "cannot install to $target: $existing is not a folder"
  [[ -w $existing ]] ||
    fail "cannot install to $target: $existing is not writable; choose another --prefix, or use sudo"
}

if $uninstall; then
  [[ -r $target/$list ]] ||
    fail "nothing to uninstall: $target/$list does not exist; check --prefix"
  count=$(wc -l <"$target/$list")
  remove_files < <(cat "$target/$list")
  echo "removed $count files from $target"
  exit 0
fi

check_writable
"$root/third_party/system/install_packages.sh" || exit 1
cd "$root"
bazel build //library/install:package.tar >&2 &&
  package=$(bazel info bazel-bin)/library/install/package.tar ||
  fail "the build failed, see above"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  tar --list --file="$package" | grep -v '/$'
  echo "$list"
} | LC_ALL=C sort >"$work/new"
# Files of an older version that this one does not have.
if [[ -r $target/$list ]]; then
  LC_ALL=C comm -23 "$target/$list" "$work/new" >"$work/obsolete"
  remove_files <"$work/obsolete"
fi
mkdir -p "$target/$(dirname "$list")" &&
  tar --extract --no-same-owner --file="$package" --directory="$target" &&
  cp "$work/new" "$target/$list" ||
  fail "cannot write to $target, see above"

cat "$work/new"
echo "installed $(wc -l <"$work/new") files to $target" >&2
if [[ :${PATH:-}: != *:$prefix/bin:* ]]; then
  echo "run $prefix/bin/tributary, or add $prefix/bin to PATH" >&2
fi
