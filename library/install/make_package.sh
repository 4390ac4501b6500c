#!/bin/bash
# Packs an installation, which may be unpacked in any folder. `install.sh` does
# so.
#
#   make_package.sh PACKAGE VERSION SOVERSION LIBRARY PROGRAM HEADERS \
#       HELP_PAGES FILE...
#
# FILE is a template of this folder, the license, or a file of an example.
set -euo pipefail

package=$1 version=$2 soversion=$3 library=$4 program=$5 headers=$6 help_pages=$7
shift 7

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

put() { install -D --mode="$1" "$2" "$root/$3"; }

fill_in() {
  mkdir -p "$root/$(dirname "$2")"
  sed "s/@VERSION@/$version/; s/@SOVERSION@/$soversion/" "$1" >"$root/$2"
}

put 755 "$program" bin/tributary
put 644 "$library" "lib/libtributary.so.$version"
strip --strip-unneeded "$root/bin/tributary" "$root/lib/libtributary.so.$version"
ln -s "libtributary.so.$version" "$root/lib/libtributary.so.$soversion"
ln -s "libtributary.so.$soversion" "$root/lib/libtributary.so"

mkdir -p "$root/include"
cp -rL "$headers/tributary" "$root/include/tributary"

tar --extract --file="$help_pages" --directory="$root"

for file in "$@"; do
  name=$(basename "$file")
  case $file in
    */tributary.pc.in) fill_in "$file" lib/pkgconfig/tributary.pc ;;
    *.cmake.in) fill_in "$file" "lib/cmake/tributary/${name%.in}" ;;
    *examples/cpp/*) put 644 "$file" "share/tributary/examples/${file#*examples/cpp/}" ;;
    *) put 644 "$file" "share/doc/tributary/$name" ;;
  esac
done

chmod -R u=rwX,go=rX "$root"
# The same contents yield the same bits.
tar --create --file="$package" --directory="$root" --sort=name --mtime=@0 \
  --owner=0 --group=0 --numeric-owner bin include lib share
