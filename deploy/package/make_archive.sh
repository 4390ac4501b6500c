#!/bin/bash
# Packs the program with all libraries that it needs, except those of the C
# library, into an archive that may be unpacked in any folder:
#
#   make_archive.sh ARCHIVE NAME PROGRAM LIBRARIES_SH HELP_PAGES MANUAL LICENSE
#
# ARCHIVE is a .tar.gz with one folder, NAME. PROGRAM looks for libraries in
# ../lib/tributary first.
set -euo pipefail

archive=$1 name=$2 program=$3 libraries_sh=$4 help_pages=$5 manual=$6 license=$7
source "$libraries_sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name

# The C library belongs to the system, because it must match its loader.
readonly c_library='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util))\.so\.[^/]*$'

install -D --mode=755 --strip "$program" "$root/bin/tributary"
mapfile -t libraries < <(libraries_of "$program" | grep -vE "$c_library")
((${#libraries[@]} > 0))
for library in "${libraries[@]}"; do
  install -D --mode=644 "$library" "$root/lib/tributary/$(basename "$library")"
done
copy_licenses "$work/licenses" "${libraries[@]}"
mkdir -p "$root/share/doc/tributary"
cp -r "$work/licenses/usr/share/doc" "$root/share/doc/tributary/licenses"

tar --extract --file="$help_pages" --directory="$root"
tar --extract --file="$manual" --directory="$root"
install --mode=644 "$license" "$root/share/doc/tributary/LICENSE"
# The texts of the built-in job; only Debian has them.
mkdir -p "$root/share/tributary/texts"
grep -oE '/usr/share/common-licenses/[^"]+' "$root/share/tributary/examples/licenses.textproto" |
  xargs cp --dereference --target-directory="$root/share/tributary/texts"

chmod -R u=rwX,go=rX "$root"
# The same contents yield the same bits.
tar --create --directory="$work" --sort=name --mtime=@0 --owner=0 --group=0 \
  --numeric-owner "$name" | gzip --no-name >"$archive"
