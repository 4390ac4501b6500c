#!/bin/bash
# Makes the root of an image that holds a program and nothing but what it needs:
#
#   collect.sh PROGRAM ROOT
#
# its shared libraries with their licenses, a user, and the texts that the
# built-in job reads. No shell, no package manager: nothing else can run there.
set -euo pipefail

program=$1
root=$2

install -D "$program" "$root/usr/bin/$(basename "$program")"

# Where the loader looks for them in this system. The loader itself is the one
# line without "=>", and the kernel's own library is no file.
mapfile -t libraries < <(ldd "$program" |
  sed -nE 's|^[[:space:]]*([^ ]+ => )?(/[^ ]+) \(.*|\2|p')
if ldd "$program" | grep 'not found' >&2; then exit 1; fi
for library in "${libraries[@]}"; do
  install -D --mode=755 "$library" "$root$library"
done

# The licenses ask for their texts beside the libraries.
packages=$(for library in "${libraries[@]}"; do
  # dpkg may know the file by the name behind the links /lib -> /usr/lib, or
  # not at all where it is an alternative.
  dpkg-query -S "$(realpath "$library")" "/usr$library" "$library" \
    2>/dev/null || true
done | cut -d: -f1 | sort -u)
for package in $packages; do
  install -D --mode=644 "/usr/share/doc/$package/copyright" \
    "$root/usr/share/doc/$package/copyright"
done

# As files: some are links, and some jobs name what they point at.
mkdir -p "$root/usr/share/common-licenses"
cp --dereference /usr/share/common-licenses/* "$root/usr/share/common-licenses/"

mkdir -p "$root/etc"
echo 'tributary:x:10001:10001::/:/sbin/nologin' >"$root/etc/passwd"
echo 'tributary:x:10001:' >"$root/etc/group"
