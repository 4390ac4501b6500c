#!/bin/bash
# Creates the root directory of an image that contains a program and only what
# it needs:
#
#   collect.sh [--cuda] PROGRAM ROOT
#
# That is: its shared libraries with their licenses, a user, and the texts that
# the built-in job reads. The image has no shell and no package manager, so no
# other program can run in it. With --cuda, if the program supports GPUs, the
# image also has CUDA's libraries (1.3 GB). The driver's libraries belong to the
# host; NVIDIA's container runtime adds them to a container.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/libraries.sh"

with_cuda=false
if [[ $1 == --cuda ]]; then
  with_cuda=true
  shift
fi
program=$1
root=$2

install -D "$program" "$root/usr/bin/$(basename "$program")"

mapfile -t libraries < <(libraries_of "$program")
((${#libraries[@]} > 0))
if $with_cuda && "$program" --version | grep -q '^CUDA: *[0-9]'; then
  mapfile -t cuda < <(cuda_libraries)
  ((${#cuda[@]} > 0))
  mapfile -t needed < <(libraries_of "${cuda[@]}" | grep -v cud)
  libraries+=("${needed[@]}")
  # A folder that the loader searches without a cache of its own.
  install -D --target-directory="$root/usr/lib/x86_64-linux-gnu" "${cuda[@]}"
fi
for library in "${libraries[@]}"; do
  install -D --mode=755 "$library" "$root$library"
done
copy_licenses "$root" "${libraries[@]}"

# Copied as files: some are links, and some jobs name the targets of links.
mkdir -p "$root/usr/share/common-licenses"
cp --dereference /usr/share/common-licenses/* "$root/usr/share/common-licenses/"

mkdir -p "$root/etc"
echo 'tributary:x:10001:10001::/:/sbin/nologin' >"$root/etc/passwd"
echo 'tributary:x:10001:' >"$root/etc/group"
# By this file, NVIDIA's container runtime decides in which folder it puts the
# driver's libraries.
cp /etc/debian_version "$root/etc/"
