#!/bin/bash
# Creates the root directory of an image that contains a program and only what
# it needs:
#
#   collect.sh PROGRAM ROOT
#
# That is: its shared libraries with their licenses, a user, and the texts that
# the built-in job reads. The image has no shell and no package manager, so no
# other program can run in it.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/libraries.sh"

program=$1
root=$2

install -D "$program" "$root/usr/bin/$(basename "$program")"

mapfile -t libraries < <(libraries_of "$program")
((${#libraries[@]} > 0))
for library in "${libraries[@]}"; do
  install -D --mode=755 "$library" "$root$library"
done
copy_licenses "$root" "${libraries[@]}"

# Copied as files: some are links, and some jobs name the targets of links.
mkdir -p "$root/usr/share/common-licenses"
cp --dereference /usr/share/common-licenses/* "$root/usr/share/common-licenses/"

mkdir -p "$root/etc"
echo 'tributary:x:10001:10001::/:/sbin/nologin' >"$root/etc/passwd"
echo 'tributary:x:10001:' >"$root/etc/group"
