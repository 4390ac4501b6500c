#!/bin/bash
# Packs the man pages and the completions for shells, in the layout of an
# installation:
#
#   make_help_pages.sh HELP_PAGES_PY PROGRAM ARCHIVE
set -euo pipefail

help_pages=$1 program=$2 archive=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$help_pages" "$program" "$work/pages"

share=$work/share
install -D --mode=644 --target-directory="$share/man/man1" "$work"/pages/man1/*
install -D --mode=644 "$work/pages/bash/tributary" \
  "$share/bash-completion/completions/tributary"
install -D --mode=644 "$work/pages/zsh/_tributary" "$share/zsh/site-functions/_tributary"
chmod -R u=rwX,go=rX "$share"
# The same contents yield the same bits.
tar --create --file="$archive" --directory="$work" --sort=name --mtime=@0 \
  --owner=0 --group=0 --numeric-owner share
