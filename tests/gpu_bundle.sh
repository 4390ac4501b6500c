#!/bin/bash
# Makes a folder that tests and measures Tributary on another machine, which
# needs an NVIDIA driver and CUDA, but neither a compiler nor Bazel:
#
#   gpu_bundle.sh [--emulated] [FOLDER]
#
# Copy FOLDER (default: gpu_bundle; less than 64 MiB) to that machine and run
# FOLDER/run_gpu.sh. With --emulated, the programs run on the emulated GPU in
# place of CUDA, to try the bundle on a machine without GPU. BAZEL names another
# Bazel.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
readonly root
readonly bazel=${BAZEL:-bazel}
readonly max_bytes=$((64 << 20))
readonly cuda=/usr/local/cuda
source "$root/deploy/compose/libraries.sh"

# Each program's name in the bundle, and its target.
readonly GPU_PROGRAMS="
tributary    //python:tributary_program
device_test  //tests/worker/device/cuda:cuda_device_test
passes_test  //tests/common/update/cuda:cuda_passes_test
workers_test //tests/integration:gpu_workers_test
servers_test //tests/integration:gpu_servers_test
nccl_test    //tests/worker/device/cuda/libraries:nccl_library_test"
readonly EMULATED_PROGRAMS="
tributary    //tests/gpu:tributary_on_emulated_gpu
device_test  //tests/worker/device/cuda/emulation:emulated_kernels_test
passes_test  //tests/common/update/cuda/emulation:emulated_passes_test
workers_test //tests/integration:emulated_gpu_workers_test
servers_test //tests/integration:emulated_gpu_servers_test"

usage() {
  echo "usage: tests/gpu_bundle.sh [--emulated] [FOLDER]" >&2
  exit 2
}

fail() {
  echo "gpu_bundle.sh: $*" >&2
  exit 1
}

# Builds the programs and copies them, without symbols, to bin/, and the native
# library of the Python package to python/.
collect_programs() {
  local name label folder
  # shellcheck disable=SC2046
  (cd "$root" && "$bazel" build //library/c_api:libtributary_c.so \
    $(awk '{print $2}' <<<"$programs")) >&2 ||
    fail "the build failed, see above"
  folder=$(cd "$root" && "$bazel" info bazel-bin 2>/dev/null)
  mkdir "$stage/bin"
  while read -r name label; do
    [[ -n $name ]] || continue
    label=${label#//}
    strip -o "$stage/bin/$name" "$folder/${label/://}"
  done <<<"$programs"
  mkdir -p "$native"
  strip -o "$native/libtributary_c.so" "$folder/library/c_api/libtributary_c.so"
}

# Copies the libraries that the programs need to lib/, except for those of
# glibc: a process needs those of the machine's loader. Those of the compiler
# are apart, in lib/compiler/.
collect_libraries() {
  local library name
  mapfile -t libraries < <(libraries_of "$stage"/bin/* "$native"/*)
  ((${#libraries[@]} > 0)) || fail "a library is missing, see above"
  for library in "${libraries[@]}"; do
    name=$(basename "$library")
    case $name in
      ld-linux* | libc.so.* | libm.so.* | libmvec.so.* | libdl.so.*) ;;
      libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.*) ;;
      libstdc++.so.* | libgcc_s.so.*)
        install -D "$library" "$stage/lib/compiler/$name"
        ;;
      *) install -D "$library" "$stage/lib/$name" ;;
    esac
  done
  copy_licenses "$stage" "${libraries[@]}"
}

# The Python package as it would be installed, its tests, and its examples. The
# package finds the libraries that it needs in the folder of its native part.
collect_python() {
  local folder
  ln "$stage/bin/tributary" "$stage"/lib/*.so* "$native/"
  cp "$root"/python/tributary/*.py "$stage/python/tributary/"
  for folder in tests/python examples/python; do
    mkdir -p "$stage/python/$folder"
    cp -r --dereference "$root/$folder/." "$stage/python/$folder"
  done
}

collect_data() {
  mkdir "$stage/data"
  "$root/tests/gpu/make_digits.sh" "$stage/data/digits"
  cp --dereference /usr/share/common-licenses/GPL-3 "$stage/data/text.txt"
  cp "$root"/tests/gpu/*.textproto "$stage/data/"
}

# Describes the bundle. run_gpu.sh looks for the libraries that are named here.
describe() {
  echo "revision: $(git -C "$root" describe --always --dirty 2>/dev/null)"
  echo "built: $(date --utc +%FT%TZ)"
  echo "device: $device"
  echo "glibc: $(objdump -T "$stage"/{bin/*,lib/*.so*} |
    grep -o 'GLIBC_[0-9.]*' | sort --unique --version-sort |
    tail -n 1) or newer"
  [[ $device == cuda ]] || return 0
  cuda_library_names | sed 's/^/library: /'
}

device=cuda
programs=$GPU_PROGRAMS
if [[ ${1:-} == --emulated ]]; then
  device=emulated
  programs=$EMULATED_PROGRAMS
  shift
elif [[ ! -x $cuda/bin/nvcc ]]; then
  fail "$cuda/bin/nvcc is missing: install the CUDA toolkit, or pass --emulated"
fi
[[ $# -le 1 && ${1:-} != -* ]] || usage
folder=${1:-gpu_bundle}
[[ ! -e $folder || -e $folder/bundle.txt ]] ||
  fail "$folder exists and is not a bundle"

stage=$(mktemp -d)
trap 'rm -rf --one-file-system "$stage"' EXIT
native=$stage/python/tributary/_native
collect_programs
collect_libraries
collect_python
collect_data
rm -rf --one-file-system "$folder"
mkdir -p "$folder"
describe >"$folder/bundle.txt"
tar --create --directory "$stage" . | gzip -9 >"$folder/programs.tar.gz"
cp "$root"/tests/gpu/{run_gpu,report,parts}.sh \
  "$root"/tests/bench/{torch_step,python_step}.py "$folder/"
bytes=$(du --summarize --bytes "$folder" | cut -f1)
((bytes < max_bytes)) ||
  fail "$folder has $bytes bytes, expected less than $max_bytes"
echo "$folder: $bytes bytes; copy it to a machine with a GPU and run run_gpu.sh"
