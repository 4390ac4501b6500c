#!/bin/bash
# Runs a command in a root file system, as if on a machine of its own:
#
#   run_in_root.sh ROOT FOLDER COMMAND...
#
# FOLDER is the current folder of the command, as the command sees it. The
# namespaces of mounts and processes end with the command, and so do its mounts
# and remaining processes (such as Bazel's server). Needs root. Uses pivot_root,
# because Bazel cannot create sandboxes in a chroot.
set -euo pipefail

exec unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  root=$1
  folder=$2
  shift 2
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  cd "$root"
  mkdir -p .outside
  pivot_root . .outside
  umount --lazy /.outside
  cd "$folder"
  exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
' bash "$@"
