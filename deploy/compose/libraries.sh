# Functions about the shared libraries of programs, for collect.sh, for
# deploy/package/make_archive.sh and for tests/gpu_bundle.sh.

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

# Prints the value of a macro in a header of CUDA, cuDNN or NCCL:
#
#   cuda_macro HEADER NAME
cuda_macro() {
  cat {/usr/local/cuda/include,/usr/include,/usr/include/x86_64-linux-gnu}/"$1" \
    2>/dev/null | sed -nE "s/^#define $2 +([0-9]+).*/\1/p" | head -n 1
}

# Prints the names of the libraries that the program loads when it uses a GPU,
# one on each line.
cuda_library_names() {
  echo "libcublasLt.so.$(cuda_macro cublas_api.h CUBLAS_VER_MAJOR)"
  echo "libcudnn.so.$(cuda_macro cudnn_version.h CUDNN_MAJOR)"
  echo "libnccl.so.$(cuda_macro nccl.h NCCL_MAJOR)"
}

# Prints the paths of these libraries, and of those that they load in turn.
# Fails if one of the former is missing.
cuda_libraries() {
  local name folder found
  for name in $(cuda_library_names); do
    found=
    for folder in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu; do
      [[ -e $folder/$name ]] || continue
      found=$folder
      break
    done
    if [[ -z $found ]]; then
      echo "libraries.sh: $name is missing" >&2
      return 1
    fi
    echo "$found/$name"
    # cuDNN consists of several libraries: libcudnn_ops, ...
    ls "$found/${name%%.so*}_"*".so.${name##*.}" 2>/dev/null || true
  done
  # Compiles operations at run time, for cuBLASLt and cuDNN.
  ls /usr/local/cuda/lib64/libnvrtc.so.[0-9][0-9] \
    /usr/local/cuda/lib64/libnvrtc-builtins.so.[0-9][0-9].[0-9] \
    2>/dev/null || true
}
