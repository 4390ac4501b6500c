#!/bin/bash
# Packs the manual, and the files that its pages name, in the layout of an
# installation:
#
#   make_manual.sh ARCHIVE FILE...
#
# FILE is a path in the source. Pages of docs/ go to share/doc/tributary, all
# other files to share/tributary, where they keep their paths. Links between
# them are adapted, and commands do not run the script `tributary` of the
# source.
set -euo pipefail

archive=$1
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for file in "$@"; do
  case $file in
    docs/*) place=share/doc/tributary/${file#docs/} ;;
    # As in an installation of the C++ library.
    examples/cpp/*) place=share/tributary/examples/${file#examples/cpp/} ;;
    *) place=share/tributary/$file ;;
  esac
  install -D --mode=644 "$file" "$work/$place"
done

# Some commands exist only in the source.
find "$work" \( -name '*.md' -o -name '*.textproto' \) -exec sed -i -E \
  -e 's|\./tributary (install\|package\|test\|wheel)|./TRIBUTARY \1|g' \
  -e 's|\./tributary( \|`)|tributary\1|g' \
  -e 's|\./TRIBUTARY |./tributary |g' {} +
find "$work" -name '*.md' -exec sed -i -E \
  -e 's|\[([^]]*)\]\([^)]*(ARCHITECTURE\|CONTRIBUTING\|internals/[a-z]+)\.md[^)]*\)|\1 (in the source)|g' \
  -e 's|\]\(((\.\./)*)examples/cpp/|](\1examples/|g' {} +
# To share/tributary, from share/doc/tributary and back.
find "$work/share/doc" -name '*.md' -exec sed -i 's|](\.\./|](../../tributary/|g' {} +
find "$work/share/tributary" -name '*.md' -exec sed -i -E \
  's|\]\(((\.\./)*)docs/|](\1../doc/tributary/|g' {} +

tar --create --directory="$work" --sort=name --mtime=@0 --owner=0 --group=0 \
  --numeric-owner --file="$archive" share
