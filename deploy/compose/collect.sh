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

program=$1
root=$2

install -D "$program" "$root/usr/bin/$(basename "$program")"

# The paths at which the loader finds the libraries. The loader itself is the
# only line without "=>". The kernel's own library (vDSO) has no file.
mapfile -t libraries < <(ldd "$program" |
  sed -nE 's|^[[:space:]]*([^ ]+ => )?(/[^ ]+) \(.*|\2|p')
if ldd "$program" | grep 'not found' >&2; then exit 1; fi
for library in "${libraries[@]}"; do
  install -D --mode=755 "$library" "$root$library"
done

# The licenses require that their texts accompany the libraries.
packages=$(for library in "${libraries[@]}"; do
  # dpkg may know the file by its path behind the link /lib -> /usr/lib. It does
  # not know files that are alternatives.
  dpkg-query -S "$(realpath "$library")" "/usr$library" "$library" \
    2>/dev/null || true
done | cut -d: -f1 | sort -u)
for package in $packages; do
  install -D --mode=644 "/usr/share/doc/$package/copyright" \
    "$root/usr/share/doc/$package/copyright"
done

# Copied as files: some are links, and some jobs name the targets of links.
mkdir -p "$root/usr/share/common-licenses"
cp --dereference /usr/share/common-licenses/* "$root/usr/share/common-licenses/"

mkdir -p "$root/etc"
echo 'tributary:x:10001:10001::/:/sbin/nologin' >"$root/etc/passwd"
echo 'tributary:x:10001:' >"$root/etc/group"
