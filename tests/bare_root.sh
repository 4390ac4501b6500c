#!/bin/bash
# Tests the first steps on a new Debian 12: creates a minimal root file system
# with debootstrap, clones the latest commit into it, and runs the two commands
# of the README there. Prints the time of each part. Not part of CI: it needs
# root, the network, about 4 GB of disk and half an hour.
#
#   tests/bare_root.sh [--no-tests] [arguments of tributary train]
#   tests/bare_root.sh --packages
#
# --packages: Instead, builds the wheel and the C++ library on this machine,
# installs both in the root as docs/python.md and docs/cpp.md describe, and runs
# the examples there. Prints sizes, too. Needs 10 GB of disk, because PyTorch
# brings libraries for GPUs.
# MIRROR: source of Debian's packages; default: debootstrap's.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mirror=${MIRROR:-}

# Runs "$@" in the root $1.
run_in_root() {
  "$project/tests/run_in_root.sh" "$1" /root/tributary "${@:2}"
}

# Prints the names of the Debian packages that have the shared libraries that
# the file $1 needs.
packages_of_libraries() {
  local library
  readelf --dynamic "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    while IFS= read -r library; do dpkg-query --search "*/$library"; done |
    grep --invert-match '/lib[cx]\?32/' | cut -d: -f1 | sort -u
}

# Runs the script $2 in the root $1, and prints how many seconds it has taken.
run_part() {
  local start=$SECONDS
  run_in_root "$1" bash -euxc "$2"
  echo "== $((SECONDS - start)) s"
}

# Installs the packages in the root $1, and runs the examples there.
test_packages() {
  local root=$1 folder=$1/root/tributary
  mkdir "$folder"
  "$project/tributary" wheel --output "$folder"
  DESTDIR=$root "$project/library/install/install.sh" --prefix /usr/local
  cp -r "$project/examples/python" "$folder/examples"
  # For pip; the same certificate authorities as on this machine.
  cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/root/authorities.pem"
  du --bytes --apparent-size "$folder"/*.whl "$root"/usr/local/lib/libtributary.so.*.*

  echo "== Debian's packages"
  run_part "$root" "apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends python3-venv cmake g++ make libabsl-dev \
      nlohmann-json3-dev $(packages_of_libraries "$root/usr/local/lib/libtributary.so" |
        tr '\n' ' ') >/root/apt.log"
  echo "== Python: installation"
  run_part "$root" "python3 -m venv /root/venv
    export PIP_CERT=/root/authorities.pem
    /root/venv/bin/pip install --quiet numpy torch ./tributary-*.whl
    du --summarize --block-size=1M /root/venv/lib/python3*/site-packages/tributary"
  echo "== Python: examples"
  run_part "$root" "export PATH=/root/venv/bin:\$PATH
    cd examples
    for name in regression digits text; do
      tributary train \$name.textproto --worker-command \"python3 \$name.py\" \
        --workers 2 --output /root/runs/\$name
    done
    python3 train_digits.py /root/runs/train_digits"
  echo "== C++: examples"
  run_part "$root" 'ldconfig
    for name in own_engine own_network; do
      cp -r "/usr/local/share/tributary/examples/$name" "$name"
      cmake -S "$name" -B "$name/build" -DCMAKE_BUILD_TYPE=Release >/root/cmake.log
      cmake --build "$name/build" >/root/cmake.log
    done
    /usr/local/bin/tributary train own_engine/ratings.textproto \
      --worker-command own_engine/build/own_engine --output /root/runs/ratings
    own_network/build/own_network train own_network/spirals.textproto \
      --output /root/runs/spirals'
}

# Copies lines to the output, and records the start of each part in the file $1.
note_parts() {
  local line
  while IFS= read -r line; do
    case $line in
      'tributary: installing'*) echo "packages $SECONDS" >>"$1" ;;
      'tributary: building'*) echo "build $SECONDS" >>"$1" ;;
      'training '*) echo "training $SECONDS" >>"$1" ;;
    esac
    printf '%s\n' "$line"
  done
  echo "end $SECONDS" >>"$1"
}

with_tests=true
packages=false
if [[ ${1:-} == --no-tests ]]; then
  with_tests=false
  shift
elif [[ ${1:-} == --packages ]]; then
  packages=true
fi
if ((EUID != 0)); then
  echo "bare_root.sh: only root can mount a root file system" >&2
  exit 1
fi
"$project/third_party/system/install_packages.sh" debootstrap git

work=$(mktemp -d /var/tmp/tributary-bare-root.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
parts=$work/parts

SECONDS=0
debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$work/log" || {
  cat "$work/log" >&2
  exit 1
}
debootstrap_seconds=$SECONDS
cp /etc/resolv.conf "$root/etc/resolv.conf"
if $packages; then
  test_packages "$root"
  echo "debootstrap $debootstrap_seconds s"
  exit
fi
git clone --quiet --no-local "$project" "$root/root/tributary"

echo "== ./tributary train $*"
SECONDS=0
run_in_root "$root" ./tributary train "$@" 2>&1 | note_parts "$parts"
for file in summary.json final/model.safetensors; do
  ls "$root"/root/tributary/runs/*/"$file"
done

test_result='not run'
test_seconds=0
result=0
if $with_tests; then
  echo "== ./tributary test"
  SECONDS=0
  run_in_root "$root" ./tributary test 2>&1 | tee "$work/log" || result=$?
  test_seconds=$SECONDS
  test_result=$(tail -n 1 "$work/log")
fi

echo "== seconds"
echo "debootstrap $debootstrap_seconds"
awk 'NR > 1 { print part, $2 - begin } { part = $1; begin = $2 }' "$parts"
echo "tests $test_seconds ($test_result)"
exit "$result"
