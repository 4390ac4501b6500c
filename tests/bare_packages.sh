#!/bin/bash
# Tests the packages of `./tributary package` on machines that have nothing but
# Debian's minimal system: installs the .deb with apt-get in one root file
# system and unpacks the archive in another, trains the built-in job in both,
# and removes the .deb again. Prints sizes and seconds. Not part of CI: it needs
# root, the network, 2 GB of disk and some minutes.
#
#   tests/bare_packages.sh [--twice] [FOLDER]
#
# FOLDER has the packages to test. Without FOLDER, they are built first. --twice
# also builds the packages of the latest commit two times, in different folders,
# and compares the bytes. The second build uses no file of an earlier one, so it
# takes half an hour or more.
# MIRROR: source of Debian's packages; default: debootstrap's.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mirror=${MIRROR:-}

fail() {
  echo "bare_packages.sh: $*" >&2
  exit 1
}

# Runs the bash script $2 in the root $1, and prints how many seconds it has
# taken after its output.
run_part() {
  local start=$SECONDS
  "$project/tests/run_in_root.sh" "$1" /root bash -euo pipefail -c "$2"
  echo "-- $((SECONDS - start)) s"
}

# Trains the built-in job with the program $2 of the root $1, as a user without
# rights and in a folder of that user, and prints the end of the summary.
train() {
  run_part "$1" "
    for tool in cc c++ gcc g++ ld bazel python3; do
      ! command -v \$tool || { echo \"the root has \$tool\" >&2; exit 1; }
    done
    install --directory --owner=1000 --group=1000 /home/user
    cd /home/user
    as_user() { setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/user \"\$@\"; }
    as_user $2 --version
    as_user $2 train --output run >log 2>&1 || { cat log >&2; exit 1; }
    test -s run/final/model.safetensors
    grep -E '\"(final_loss|steps|weights_sha256)\"' run/summary.json"
}

# Lists the files of the root $1, except those that apt and the loader keep for
# themselves, and what tests have written.
list_files() {
  (cd "$1" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./home \
    -o -path ./.outside -o -path ./root -o -path ./tmp -o -path ./var/cache \
    -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/log \
    -o -path ./etc/ld.so.cache \) -prune -o -print | LC_ALL=C sort)
}

test_deb() {
  local root=$1 deb=$2
  cp "$deb" "$root/root/"
  echo "== $(basename "$deb"): $(stat --format %s "$deb") bytes"
  list_files "$root" >"$work/before"
  run_part "$root" "
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ./$(basename "$deb") >apt.log 2>&1 ||
      { cat apt.log >&2; exit 1; }
    echo \"installed: \$(dpkg-query --show --showformat '\${Installed-Size} KiB' tributary)\"
    echo \"packages that it brought: \$(grep -c '^Setting up' apt.log)\"
    dpkg --verify tributary
    dpkg -L tributary >files
    for file in man/man1/tributary-train.1.gz bash-completion/completions/tributary \
        zsh/vendor-completions/_tributary tributary/examples/licenses.textproto; do
      test -s /usr/share/\$file
    done"
  train "$root" tributary
  echo "== apt-get remove"
  run_part "$root" "
    export DEBIAN_FRONTEND=noninteractive
    apt-get remove -y -qq tributary >apt.log 2>&1
    while read -r file; do
      [[ -d \$file ]] && ! [[ \$file == *tributary* ]] || ! [[ -e \$file ]] ||
        { echo \"left behind: \$file\" >&2; exit 1; }
    done <files
    apt-get autoremove --purge -y -qq >apt.log 2>&1"
  list_files "$root" >"$work/after"
  # Debian's own packages may leave folders of their own.
  diff "$work/before" "$work/after" || true
  ! diff "$work/before" "$work/after" | grep -i tributary ||
    fail "apt-get remove has left files behind"
}

test_archive() {
  local root=$1 archive=$2
  echo "== $(basename "$archive"): $(stat --format %s "$archive") bytes"
  cp "$archive" "$root/root/"
  run_part "$root" "
    mkdir /opt/any
    tar -xf $(basename "$archive") -C /opt/any --strip-components=1
    du --summarize --bytes /opt/any | sed 's/[^0-9].*/ bytes unpacked/'
    for file in man/man1/tributary-train.1 bash-completion/completions/tributary; do
      test -s /opt/any/share/\$file
    done"
  train "$root" /opt/any/bin/tributary
}

# Builds the packages of commit $2 in a clone, $work/$1.
build_clone() {
  local clone=$work/$1
  git clone --quiet --no-local "$project" "$clone"
  git -C "$clone" checkout --quiet --detach "$2"
  # It may name a cache, which only the first build uses.
  if [[ $1 == first && -f $project/user.bazelrc ]]; then
    cp "$project/user.bazelrc" "$clone/"
  fi
  mkdir -p "$work/bazel-$1" "$work/bin-$1"
  printf '#!/bin/bash\nexec %q --output_user_root=%q "$@"\n' \
    "$(command -v bazel)" "$work/bazel-$1" >"$work/bin-$1/bazel"
  chmod +x "$work/bin-$1/bazel"
  PATH=$work/bin-$1:$PATH bash -euo pipefail -c '
    cd "$1"
    ./tributary package --output packages
    bazel shutdown' bash "$clone"
}

# Prints which files of two packages differ.
show_differences() {
  local package number=0
  for package in "$@"; do
    ((number += 1))
    mkdir "$work/content-$number"
    if [[ $package == *.deb ]]; then
      dpkg-deb --raw-extract "$package" "$work/content-$number"
    else
      tar -xf "$package" -C "$work/content-$number"
    fi
  done
  diff --recursive --brief --no-dereference "$work"/content-{1,2} || true
}

build_twice() {
  local package start=$SECONDS commit
  # There may be further commits before the second build begins.
  commit=$(git -C "$project" rev-parse HEAD)
  build_clone first "$commit"
  echo "first build: $((SECONDS - start)) s"
  start=$SECONDS
  build_clone second "$commit"
  for package in "$work"/first/packages/*; do
    cmp "$package" "$work/second/packages/$(basename "$package")" || {
      show_differences "$package" "$work/second/packages/$(basename "$package")"
      fail "the second build of $(basename "$package") differs"
    }
    sha256sum "$package"
  done
  echo "second build: equal bytes, $((SECONDS - start)) s"
}

twice=false
if [[ ${1:-} == --twice ]]; then
  twice=true
  shift
fi
((EUID == 0)) || fail "only root can mount a root file system"
"$project/third_party/system/install_packages.sh" debootstrap git

work=$(mktemp -d /var/tmp/tributary-bare-packages.XXXXXX)
# Bazel makes folders that it protects from changes.
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
folder=${1:-$work/packages}
(($# > 0)) || "$project/tributary" package --output "$folder"
folder=$(cd "$folder" && pwd -P)
for package in "$folder"/tributary*{.deb,.tar.gz}; do
  [[ -f $package ]] || fail "$package is missing"
done

debootstrap --variant=minbase bookworm "$work/deb" ${mirror:+"$mirror"} >"$work/log" || {
  cat "$work/log" >&2
  fail "debootstrap has failed"
}
cp /etc/resolv.conf "$work/deb/etc/resolv.conf"
cp -a "$work/deb" "$work/archive"
test_deb "$work/deb" "$folder"/tributary_*.deb
test_archive "$work/archive" "$folder"/tributary-*.tar.gz
if $twice; then build_twice; fi
echo "passed"
