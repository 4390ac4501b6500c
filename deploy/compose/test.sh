#!/bin/bash
# Tests the image and the Compose file with real containers on Debian 12, using
# podman instead of Docker. It makes a base image with debootstrap (no image
# registry is used), builds the image, trains the built-in job with two workers,
# checks the results, and removes everything again. Not part of CI: it needs
# root, the network, about 4 GB of disk and some minutes.
#
#   deploy/compose/test.sh
#
# MIRROR: source of Debian's packages. KEEP_IMAGES=1: keep the images, so that
# the next run starts from them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
project=$(cd "$here/../.." && pwd -P)
readonly here project
# The source of packages; empty: debootstrap's default.
readonly mirror=${MIRROR:-}
readonly base=docker.io/library/debian:bookworm
# The name that podman resolves "tributary" of compose.yaml to.
readonly image=docker.io/library/tributary:latest
readonly max_image_bytes=150000000
readonly name=tributary-compose-test
# The built-in job takes one or two minutes; a slow machine may need longer.
readonly max_seconds=900

fail() {
  echo "test.sh: $*" >&2
  exit 1
}

# runc and the limits replace defaults of podman that some containers and
# virtual machines do not support.
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

# Prints the containers of this run, or only those of its service $1.
containers() {
  podman ps --all --quiet --filter "label=io.podman.compose.project=$name" \
    ${1:+--filter "label=com.docker.compose.service=$1"}
}

# Prints the states of the containers of the service $1, one line each:
# "running 0".
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
  # podman-compose does not remove the network.
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
  # Layers are images of their own, which would remain.
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
  ((bytes < max_image_bytes)) ||
    fail "the image has $bytes bytes, expected less than $max_image_bytes"
  [[ $user != '' && $user != root && $user != 0* ]] ||
    fail "the image runs as root"
}

train() {
  local start=$SECONDS ready=false
  WORKERS=2 quietly compose up --detach
  # Runs the health check of compose.yaml, because podman runs health checks
  # itself only with systemd.
  while [[ $(states server) == running* ]]; do
    if ! $ready && podman exec "${name}_server_1" \
      /usr/bin/tributary status --ready 2>"$work/log"; then
      ready=true
      echo "ready: $(seconds_since "$start")"
      [[ $(states worker | wc -l) == 2 ]] ||
        fail "expected 2 workers, found $(states worker | wc -l)"
    fi
    ((SECONDS - start < max_seconds)) ||
      fail "the job did not end within $max_seconds s"
    sleep 0.5
  done
  $ready || fail "the health check never passed: $(<"$work/log")"
  # The workers end when the server tells them that the job is done.
  while [[ $(states worker) == *running* ]]; do
    ((SECONDS - start < max_seconds)) ||
      fail "a worker did not end within $max_seconds s"
    sleep 0.5
  done
  echo "training: $(seconds_since "$start")"
}

check_results() {
  local service results
  for service in server worker; do
    [[ $(states "$service" | sort -u) == 'exited 0' ]] ||
      fail "expected all of $service to exit with 0: $(states "$service")"
  done
  results=$(podman volume inspect --format '{{.Mountpoint}}' "${name}_output")
  [[ -s $results/final/model.safetensors ]] ||
    fail "$results/final/model.safetensors is missing or empty"
  python3 - "$results/summary.json" <<'END' || fail "unexpected summary.json"
import json, sys
summary = json.load(open(sys.argv[1]))
print({key: summary.get(key) for key in
       ("steps", "workers", "final_loss", "evaluation", "weights_sha256")})
sys.exit(summary["status"] != "done" or summary["workers"] != 2)
END
}

((EUID == 0)) || fail "needs root to make a base image; run it with sudo"
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
