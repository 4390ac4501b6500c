# Functions about the shared libraries of programs, for collect.sh and for
# tests/gpu_bundle.sh.

# Prints the paths at which the loader finds the libraries of the programs, one
# on each line. Fails if one is missing.
libraries_of() {
  local listed
  listed=$(ldd "$@") || return 1
  if grep 'not found' <<<"$listed" >&2; then return 1; fi
  # The loader itself is the only line without "=>". The kernel's own library
  # (vDSO) has no file.
  sed -nE 's|^[[:space:]]*([^ ]+ => )?(/[^ ]+) \(.*|\2|p' <<<"$listed" | sort -u
}

# Copies the licenses of the libraries, which must accompany them:
#
#   copy_licenses FOLDER LIBRARY...
copy_licenses() {
  local target=$1 library package
  shift
  for library in "$@"; do
    # dpkg may know the file by its path behind the link /lib -> /usr/lib. It
    # does not know files that are alternatives.
    dpkg-query -S "$(realpath "$library")" "/usr$library" "$library" \
      2>/dev/null || true
  done | cut -d: -f1 | sort -u | while read -r package; do
    install -D --mode=644 "/usr/share/doc/$package/copyright" \
      "$target/usr/share/doc/$package/copyright"
  done
}
