#!/bin/bash
# Makes a package for Debian from an installation:
#
#   make_deb.sh PACKAGE VERSION INSTALLATION MANUAL UNIT...
#
# INSTALLATION is //library/install:package.tar, and MANUAL //deploy/package:manual.tar. UNIT is a
# unit of systemd. The versions of the packages that it depends on come from
# the libraries of this machine.
set -euo pipefail

package=$(realpath --no-symlinks "$1") version=$2 installation=$3 manual=$4
shift 4

if ! command -v dpkg-shlibdeps >/dev/null; then
  echo "make_deb.sh: dpkg-shlibdeps is missing: apt-get install dpkg-dev" >&2
  exit 1
fi

readonly maintainer='The Tributary Authors <tributary@example.org>'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
doc=$root/usr/share/doc/tributary

mkdir -p "$root/usr" "$root/DEBIAN"
tar --extract --no-same-owner --file="$installation" --directory="$root/usr"
tar --extract --no-same-owner --file="$manual" --directory="$root/usr"
install -D --mode=644 --target-directory="$root/usr/lib/systemd/system" "$@"
# Jobs of the examples run from any folder.
sed -i 's|"examples/data/|"/usr/share/tributary/examples/data/|' \
  "$root"/usr/share/tributary/examples/*.textproto
# What Debian expects, where it expects it.
rm "$doc/LICENSE"
cat >"$doc/copyright" <<'COPYRIGHT'
Copyright 2026 The Tributary Authors
License: Apache-2.0
 On Debian systems, the text of this license is in
 /usr/share/common-licenses/Apache-2.0.
COPYRIGHT
gzip --no-name -9 >"$doc/changelog.gz" <<CHANGELOG
tributary ($version) stable; urgency=medium

  * Release $version.

 -- $maintainer  Thu, 01 Jan 2026 00:00:00 +0000
CHANGELOG
mkdir -p "$root/usr/share/zsh"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
gzip --no-name -9 "$root"/usr/share/man/man1/*

# dpkg-shlibdeps reads the package's name from debian/control.
mkdir "$work/debian"
printf 'Source: tributary\n\nPackage: tributary\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info \
  -l"$root/usr/lib" "$root/usr/bin/tributary" "$root"/usr/lib/libtributary.so.*.*)
[[ $libraries == shlibs:Depends=* ]]

cat >"$root/DEBIAN/control" <<CONTROL
Package: tributary
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Section: science
Priority: optional
Installed-Size: $(du --summarize --apparent-size --block-size=1024 "$root/usr" | cut -f 1)
Depends: ${libraries#shlibs:Depends=}
Suggests: libabsl-dev, cmake, pkg-config
Description: parameter-server training of neural networks
 Servers hold the weights, average gradients and run the optimizer; workers on
 CPUs or GPUs compute gradients. Results are bitwise equal for any number of
 workers, and survive the loss of any process.
 .
 This package contains the program tributary, and the C++ library with its
 headers, which need libabsl-dev.
CONTROL
# The loader's cache must list the library.
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
# For packages of programs that link to the library.
library=$(basename "$root"/usr/lib/libtributary.so.?)
echo "libtributary ${library##*.} tributary (>= $version)" >"$root/DEBIAN/shlibs"
# What the package does on purpose, against Debian's policy for its archive.
install -D --mode=644 /dev/stdin "$root/usr/share/lintian/overrides/tributary" <<'OVERRIDES'
# One package holds the program, the library and its headers, which is in
# /usr/lib also on machines without multiarch.
tributary: link-to-shared-library-in-wrong-package
tributary: package-name-doesnt-match-sonames
tributary: pkg-config-unavailable-for-cross-compilation
# Where the CUDA toolkit is, whose libraries are loaded only on machines with GPUs.
tributary: custom-library-search-path
OVERRIDES
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) \
  >"$root/DEBIAN/md5sums"

find "$root" -type f -exec chmod 644 {} +
chmod 755 "$root"/usr/bin/*
find "$root" -type d -exec chmod 755 {} +
# The same contents yield the same bits. Tools warn of dates before 1984.
readonly date=1767225600  # 2026-01-01
find "$root" -exec touch --no-dereference --date="@$date" {} +
SOURCE_DATE_EPOCH=$date dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
