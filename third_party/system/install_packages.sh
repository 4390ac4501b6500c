#!/bin/bash
# Installs what is missing of packages.txt and of the packages named as
# arguments. Prints nothing and needs no rights where nothing is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
mapfile -t wanted < <(grep -v '^#' "$here/packages.txt")
wanted+=("$@")

if ! command -v dpkg-query apt-get >/dev/null; then
  {
    echo "tributary: this system is not Debian or Ubuntu. Install what these"
    echo "packages of Debian 12 hold, then build with Bazel (4.2.3 to 7):"
    echo "  ${wanted[*]}"
  } >&2
  exit 1
fi

# dpkg-query ends with an error when it does not know one of the packages.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' \
  "${wanted[@]}" 2>/dev/null) || true
missing=()
for package in "${wanted[@]}"; do
  # Any Bazel will do, such as one from its own packages.
  if [[ $package == bazel-bootstrap ]] && command -v bazel >/dev/null; then
    continue
  fi
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
  if ! command -v sudo >/dev/null; then
    echo "tributary: as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  # sudo could not ask for a password, for example under pip.
  if [[ ! -t 0 ]] && ! sudo --non-interactive true 2>/dev/null; then
    echo "tributary: run: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
echo "tributary: installing missing packages: ${missing[*]}" >&2
# Standard output belongs to the program that is about to be run.
"${as_root[@]}" apt-get update -qq -o Acquire::Retries=5 >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends -o Acquire::Retries=5 \
  "${missing[@]}" >&2
