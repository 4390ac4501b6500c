#!/bin/bash
# Tests the image and the compose file for real on Debian 12, with podman in
# Docker's place: makes a base image with debootstrap (no image registry is
# asked), builds, trains the built-in job with two workers, looks at what it
# left, and removes everything again. Not part of CI: it needs root, the
# network, about 4 GB of disk and some minutes.
#
#   deploy/compose/test.sh
#
# MIRROR: where Debian's packages come from. KEEP_IMAGES=1: leave the images, so
# that the next run starts from them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
project=$(cd "$here/../.." && pwd -P)
readonly here project
# Where debootstrap gets the packages, if not from where it does by default.
readonly mirror=${MIRROR:-}
readonly base=docker.io/library/debian:bookworm
# Where podman looks for the image that compose.yaml calls "tributary".
readonly image=docker.io/library/tributary:latest
readonly max_image_bytes=150000000
readonly name=tributary-compose-test
# The built-in job takes a minute or two; a slow machine may need longer.
readonly max_seconds=900

fail() {
  echo "test.sh: $*" >&2
  exit 1
}

# runc and the limits: what podman asks for without them is not to be had in
# every container or virtual machine that this runs in.
compose() {
  podman-compose -p "$name" -f "$here/compose.yaml" \
    --podman-args="--runtime runc" \
    --podman-run-args="--ulimit nofile=1024:1024 --ulimit nproc=1024:1024" \
    "$@"
}

quietly() {
  "$@" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "failed: $*"
  }
}

seconds_since() {
  echo "$((SECONDS - $1)) s"
}

# The containers of this run, or those of its service $1.
containers() {
  podman ps --all --quiet --filter "label=io.podman.compose.project=$name" \
    ${1:+--filter "label=com.docker.compose.service=$1"}
}

# The states of the containers of the service $1, a line each: "running 0".
states() {
  containers "$1" | xargs --no-run-if-empty \
    podman inspect --format '{{.State.Status}} {{.State.ExitCode}}'
}

show_logs() {
  local container
  for container in $(containers); do
    podman logs "$container" 2>&1 | tail -n 20 >&2
  done
}

clean_up() {
  local result=$?
  ((result == 0)) || show_logs
  compose down --volumes >/dev/null 2>&1 || true
  # Which podman-compose leaves behind.
  podman network rm "${name}_default" >/dev/null 2>&1 || true
  if [[ -z ${KEEP_IMAGES:-} ]]; then
    podman image rm --force "$image" "${our_base[@]}" >/dev/null 2>&1 || true
  fi
  rm -rf --one-file-system "$work"
}

make_base_image() {
  if podman image exists "$base"; then return; fi
  local start=$SECONDS
  quietly debootstrap --variant=minbase bookworm "$work/root" ${mirror:+"$mirror"}
  tar --create --directory "$work/root" --exclude='./var/cache/apt/archives/*' \
    . | quietly podman import - "$base"
  our_base=("$base")
  echo "base image: $(seconds_since "$start")"
}

build_image() {
  local start=$SECONDS
  # Layers are images of their own, which stay.
  quietly buildah bud --isolation chroot --network host \
    ${KEEP_IMAGES:+--layers} \
    --ignorefile "$here/Dockerfile.dockerignore" \
    -f "$here/Dockerfile" -t "$image" "$project"
  echo "image: $(seconds_since "$start")"
}

inspect_image() {
  podman image inspect --format "$1" "$image"
}

check_image() {
  local bytes user
  bytes=$(inspect_image '{{.Size}}')
  user=$(inspect_image '{{.Config.User}}')
  echo "image: $bytes bytes, user $user"
  ((bytes < max_image_bytes)) || fail "the image is larger than 150 MB"
  [[ $user != '' && $user != root && $user != 0* ]] ||
    fail "the image runs as root"
}

train() {
  local start=$SECONDS ready=false
  WORKERS=2 quietly compose up --detach
  # What the health check of compose.yaml runs; podman runs health checks of
  # itself only where there is systemd.
  while [[ $(states server) == running* ]]; do
    if ! $ready && podman exec "${name}_server_1" \
      /usr/bin/tributary status --ready 2>"$work/log"; then
      ready=true
      echo "ready: $(seconds_since "$start")"
      [[ $(states worker | wc -l) == 2 ]] || fail "expected two workers"
    fi
    ((SECONDS - start < max_seconds)) || fail "no end after $max_seconds s"
    sleep 0.5
  done
  $ready || fail "the health check never passed: $(<"$work/log")"
  # The workers end with the server's last word.
  while [[ $(states worker) == *running* ]]; do
    ((SECONDS - start < max_seconds)) || fail "a worker does not end"
    sleep 0.5
  done
  echo "training: $(seconds_since "$start")"
}

check_results() {
  local service results
  for service in server worker; do
    [[ $(states "$service" | sort -u) == 'exited 0' ]] ||
      fail "$service ended with: $(states "$service")"
  done
  results=$(podman volume inspect --format '{{.Mountpoint}}' "${name}_output")
  [[ -s $results/final/model.safetensors ]] || fail "no model"
  python3 - "$results/summary.json" <<'END' || fail "not the summary we want"
import json, sys
summary = json.load(open(sys.argv[1]))
print({key: summary.get(key) for key in
       ("steps", "workers", "final_loss", "evaluation", "weights_sha256")})
sys.exit(summary["status"] != "done" or summary["workers"] != 2)
END
}

((EUID == 0)) || fail "only root can make a base image"
"$project/third_party/system/install_packages.sh" aardvark-dns buildah \
  catatonit debootstrap iptables netavark podman podman-compose python3 runc

work=$(mktemp -d /var/tmp/tributary-compose-test.XXXXXX)
our_base=()
trap clean_up EXIT
make_base_image
build_image
check_image
train
check_results
echo "passed"
