#!/bin/bash
# Checks the CUDA sources with the warnings of clang's CUDA front end. nvcc has
# no such warnings for device code. Skipped without clang or the CUDA toolkit.
#
# Generates no code, so clang need not know the toolkit's version:
# - Toolkits from version 12 on have no texture references, which the headers of
#   older clangs declare: an empty header replaces them.
# - Without -target-sdk-version, clang launches kernels with a function that
#   only toolkits before version 9.2 have.
# - CCCL declares variadic functions in device code, but does not call them.
set -euo pipefail

cd "$(dirname "$(readlink -f "$TEST_SRCDIR/$TEST_WORKSPACE/WORKSPACE")")"
cuda=/usr/local/cuda
compiler=""
for name in clang++ clang++-{14..19}; do
  if command -v "$name" >/dev/null; then compiler=$name && break; fi
done
if [[ -z $compiler || ! -d $cuda/include ]]; then
  echo "skipped: needs clang++ and the CUDA toolkit in $cuda"
  exit 0
fi

headers=$TEST_TMPDIR/headers
mkdir -p "$headers"
: >"$headers/texture_fetch_functions.h"
flags=(-x cuda --cuda-device-only -fsyntax-only -nocudalib
  --cuda-gpu-arch=sm_80 "--cuda-path=$cuda" -Wno-unknown-cuda-version
  -Xclang -target-sdk-version=11.5 -Xclang -fcuda-allow-variadic-functions
  -D__CLANG_CUDA_TEXTURE_INTRINSICS_H__ -isystem "$headers"
  -isystem "$cuda/include/cccl" -std=c++17 -I.
  -Wall -Wextra -Wshadow-all -Werror)
mapfile -t sources < <(find common server worker -name '*.cu' | sort)
((${#sources[@]} > 0))
printf '%s\0' "${sources[@]}" |
  xargs -0 --max-procs=2 --max-args=1 "$compiler" "${flags[@]}"
echo "checked ${#sources[@]} files with $compiler"
