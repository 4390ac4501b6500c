#!/bin/bash
# Prints the linker's version script of the library: exports what the public
# headers declare, and hides everything else:
#
#   version_script.sh FOLDER_OF_HEADERS SYMBOL_VERSION
#
# The headers' format is that of clang-format: only declarations in the
# namespace start in the first column. The script names symbols as the compiler
# does (the Itanium C++ ABI): the length of each name precedes it.
set -euo pipefail

mapfile -t headers < <(find "$1/" -name '*.h' | LC_ALL=C sort)

# Prints what group $2 of the pattern $1 matches.
declared() {
  grep -hE "$1" "${headers[@]}" | sed -E "s/$1.*/\\$2/" | LC_ALL=C sort -u
}
classes=$(declared '^(class|struct) ([A-Za-z0-9]+)( final)?( :|:|$| \{)' 2)
functions=$(declared '^[a-z[][^#=(]*[ *&]([A-Z][A-Za-z0-9]*)\(' 1)

echo "$2 {"
echo '  global:'
echo '    tributary_*;'
for class in $classes; do
  symbol=9tributary${#class}$class
  # Functions and constants, functions that are const, and tables.
  echo "    _ZN$symbol*;"
  echo "    _ZNK$symbol*;"
  echo "    _ZT[VIS]N${symbol}E;"
done
for function in $functions; do
  # Arguments follow after E, or after a tag (B5cxx11).
  echo "    _ZN9tributary${#function}$function[EB]*;"
done
echo '  local:'
echo '    *;'
echo '};'
