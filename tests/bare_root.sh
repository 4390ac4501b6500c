#!/bin/bash
# Tests the first steps on a new Debian 12: creates a minimal root file system
# with debootstrap, clones the latest commit into it, and runs the two commands
# of the README there. Prints the time of each part. Not part of CI: it needs
# root, the network, about 4 GB of disk and half an hour.
#
#   tests/bare_root.sh [--no-tests] [arguments of tributary train]
#
# MIRROR: source of Debian's packages; default: debootstrap's.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mirror=${MIRROR:-}

# Runs "$@" in the root $1 and in namespaces of its own, which end its mounts
# and remaining processes (Bazel's server). Uses pivot_root, because Bazel
# cannot create sandboxes in a chroot.
run_in_root() {
  unshare --mount --pid --fork --kill-child bash -c '
    set -euo pipefail
    root=$1
    shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    cd "$root"
    mkdir -p .outside
    pivot_root . .outside
    umount --lazy /.outside
    cd /root/tributary
    exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
  ' bash "$@"
}

# Copies lines to the output, and records the start of each part in the file $1.
note_parts() {
  local line
  while IFS= read -r line; do
    case $line in
      'tributary: installing'*) echo "packages $SECONDS" >>"$1" ;;
      'tributary: building'*) echo "build $SECONDS" >>"$1" ;;
      'training '*) echo "training $SECONDS" >>"$1" ;;
    esac
    printf '%s\n' "$line"
  done
  echo "end $SECONDS" >>"$1"
}

with_tests=true
if [[ ${1:-} == --no-tests ]]; then
  with_tests=false
  shift
fi
if ((EUID != 0)); then
  echo "bare_root.sh: only root can mount a root file system" >&2
  exit 1
fi
"$project/third_party/system/install_packages.sh" debootstrap git

work=$(mktemp -d /var/tmp/tributary-bare-root.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
parts=$work/parts

SECONDS=0
debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$work/log" || {
  cat "$work/log" >&2
  exit 1
}
debootstrap_seconds=$SECONDS
cp /etc/resolv.conf "$root/etc/resolv.conf"
git clone --quiet --no-local "$project" "$root/root/tributary"

echo "== ./tributary train $*"
SECONDS=0
run_in_root "$root" ./tributary train "$@" 2>&1 | note_parts "$parts"
for file in summary.json final/model.safetensors; do
  ls "$root"/root/tributary/runs/*/"$file"
done

test_result='not run'
test_seconds=0
result=0
if $with_tests; then
  echo "== ./tributary test"
  SECONDS=0
  run_in_root "$root" ./tributary test 2>&1 | tee "$work/log" || result=$?
  test_seconds=$SECONDS
  test_result=$(tail -n 1 "$work/log")
fi

echo "== seconds"
echo "debootstrap $debootstrap_seconds"
awk 'NR > 1 { print part, $2 - begin } { part = $1; begin = $2 }' "$parts"
echo "tests $test_seconds ($test_result)"
exit "$result"
