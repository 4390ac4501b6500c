#!/bin/bash
# Prints the interface of the installed library, without comments and
# independently of the format: the declarations of its headers, and the functions
# that it exports:
#
#   print_interface.sh VERSION FOLDER_OF_HEADERS LIBRARY
set -euo pipefail

version=$1 folder=$2 library=$3

echo "version $version"
headers() { (cd "$folder" && find tributary -name '*.h' | LC_ALL=C sort); }

# Joins the lines of a declaration, and begins a new one after each ";", "{" and
# "}". Include guards are left out.
normalize() {
  awk '
    function flush() {
      gsub(/[ \t]+/, " ", text)
      gsub(/[;{}] ?/, "&\n", text)
      printf "%s", text
      if (text != "" && text !~ /\n$/) print ""
      text = ""
    }
    /^#(ifndef|define) TRIBUTARY_.*_H_ *$/ || /^#endif/ { next }
    /^#/ { flush(); print; next }
    { text = text " " $0 }
    END { flush() }' | sed -E 's/^ +//; s/ +$//; /^$/d'
}

for header in $(headers); do
  echo "== $header"
  g++ -fpreprocessed -dD -E -P -x c++ "$folder/$header" | normalize
done

# Distributions name Abseil's inner namespace and demangle differently.
echo "== exported functions"
nm --dynamic --defined-only --demangle "$library" |
  sed -nE 's/^[0-9a-f]+ T ([^@]*).*/\1/p' |
  sed -E 's/absl::[a-z]+[0-9]+::/absl::/g; s/> (>)/>\1/g; s/> (>)/>\1/g' |
  LC_ALL=C sort -u
