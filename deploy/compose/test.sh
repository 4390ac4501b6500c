#!/bin/bash
# Tests the image and the Compose file with real containers on Debian 12, using
# podman instead of Docker. It makes a base image with debootstrap (no image
# registry is used), builds the image, runs commands in it, trains the built-in
# job with two workers, checks the results, and removes everything again. Not
# part of CI: it needs root, the network, about 4 GB of disk and some minutes.
#
#   deploy/compose/test.sh
#
# MIRROR: source of Debian's packages. KEEP_IMAGES=1: keep the images, so that
# the next run starts from them. PROGRAM=FILE: make the image of this program
# instead of building one in a container, which takes a minute. If it supports
# GPUs, the image with CUDA's libraries is tested, too (2.6 GB of disk).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
project=$(cd "$here/../.." && pwd -P)
readonly here project
# The source of packages; empty: debootstrap's default.
readonly mirror=${MIRROR:-}
readonly base=docker.io/library/debian:bookworm
# The name that podman resolves "tributary" of compose.yaml to.
readonly image=docker.io/library/tributary:latest
readonly gpu_image=docker.io/library/tributary:gpu
readonly prometheus_image=docker.io/library/tributary-prometheus:latest
readonly prometheus_port=19090
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
  podman volume rm "$name" >/dev/null 2>&1 || true
  # podman-compose does not remove the network.
  podman network rm "${name}_default" >/dev/null 2>&1 || true
  if [[ -z ${KEEP_IMAGES:-} ]]; then
    podman image rm --force "$image" "$gpu_image" "$prometheus_image" \
      "${our_base[@]}" \
      >/dev/null 2>&1 || true
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

# Makes the image $1 of $program as the Dockerfile does, but without building
# the program. The other arguments are those of collect.sh.
pack_image() {
  local start=$SECONDS packed=$1
  shift
  rm -rf --one-file-system "$work/packed"
  mkdir -p "$work/packed/output"
  # The file's name becomes that of the program in the image.
  cp "$program" "$work/tributary"
  "$here/collect.sh" "$@" "$work/tributary" "$work/packed/image"
  sed '1,/^FROM scratch/{/^FROM scratch/!d}; s/--from=build //' \
    "$here/Dockerfile" >"$work/packed/Dockerfile"
  quietly buildah bud --isolation chroot -f "$work/packed/Dockerfile" \
    -t "$packed" "$work/packed"
  echo "$packed: $(podman image inspect --format '{{.Size}}' "$packed") bytes," \
    "$(seconds_since "$start")"
}

inspect_image() {
  podman image inspect --format "$1" "$image"
}

# Runs a command of the image $1 as strictly as compose.yaml does, without a
# network, and with a new volume for the output.
run_in() {
  local packed=$1
  shift
  podman --runtime runc run --rm --network none --read-only --tmpfs /tmp \
    --cap-drop ALL --security-opt no-new-privileges \
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
    --volume "$name:/output" "$packed" "$@"
}

# Runs commands that need no other container.
check_commands() {
  local command start=$SECONDS
  for command in "--version" "train --help" "devices" "plan" \
    "train --steps 3 --output /output/train" \
    "compare --steps 3 --output /output/compare" \
    "checkpoint verify /output/train" "sample /output/train"; do
    # shellcheck disable=SC2086
    quietly run_in "$image" $command
  done
  # Without --output, `train` creates a folder of its own.
  quietly run_in "$image" train --steps 3
  echo "commands: $(seconds_since "$start")"
}

# The error of an image that cannot compute on a GPU must be one line.
check_without_gpu() {
  local message
  message=$(run_in "$1" train --device cuda 2>&1) &&
    fail "train --device cuda succeeded without a GPU"
  echo "$1 without a GPU: $message"
  [[ $(wc -l <<<"$message") == 1 && $message == 'error: --device cuda: '* ]] ||
    fail "expected one line that begins with 'error: --device cuda: '"
}

# The loader must find all libraries that CUDA's libraries need in the image.
check_cuda_libraries() {
  local library listed
  for library in $(cuda_library_names); do
    listed=$(podman --runtime runc run --rm --network none \
      --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
      --entrypoint /lib64/ld-linux-x86-64.so.2 "$gpu_image" \
      --list "/usr/lib/x86_64-linux-gnu/$library") ||
      fail "$library is not in the image"
    [[ $listed != *'not found'* ]] || fail "$library: $listed"
  done
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
  WORKERS=2 quietly compose up --detach server worker
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

# Prints the answer of Prometheus to the path $1 of its interface, or nothing.
ask_prometheus() {
  python3 - "http://127.0.0.1:$prometheus_port/api/v1/$1" <<'END' 2>/dev/null
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
END
}

# Waits until the answer to the path $1 matches the regular expression $2.
await_prometheus() {
  local start=$SECONDS answer=
  until answer=$(ask_prometheus "$1") && grep -qE "$2" <<<"$answer"; do
    ((SECONDS - start < 120)) || fail "$3: ${answer:-no answer}"
    sleep 0.5
  done
  echo "$3: $(seconds_since "$start")"
}

# Kills a worker of a job that Prometheus watches.
check_alert() {
  make_base_image
  quietly buildah bud --isolation chroot --network host \
    --ignorefile "$here/Dockerfile.dockerignore" \
    -f "$project/deploy/prometheus/Dockerfile" -t "$prometheus_image" "$project"
  compose down --volumes >/dev/null 2>&1
  # A service that is named is started, whatever its profile.
  PROMETHEUS_PORT=$prometheus_port WORKERS=2 quietly compose \
    up --detach server worker prometheus
  await_prometheus "query?query=sum(up)" '"value":\[[^]]*"3"\]' \
    "all containers are scraped"
  await_prometheus "query?query=tributary_workers_lost_total" '"value":' "metrics"
  podman kill "$(containers worker | head -n 1)" >/dev/null
  await_prometheus alerts \
    '"alertname":"TributaryWorkerLost"[^}]*"run":"compose".*"state":"firing"' \
    "alert for the lost worker"
}

((EUID == 0)) || fail "needs root to make a base image; run it with sudo"
"$project/third_party/system/install_packages.sh" aardvark-dns buildah \
  catatonit debootstrap iptables netavark podman podman-compose python3 runc
source "$here/libraries.sh"

program=${PROGRAM:-}
[[ -z $program || -x $program ]] || fail "PROGRAM: there is no program $program"
work=$(mktemp -d /var/tmp/tributary-compose-test.XXXXXX)
our_base=()
trap clean_up EXIT
if [[ -z $program ]]; then
  make_base_image
  build_image
else
  pack_image "$image"
fi
check_image
check_commands
check_without_gpu "$image"
if [[ -n $program ]] && "$program" --version | grep -q '^CUDA: *[0-9]'; then
  pack_image "$gpu_image" --cuda
  check_cuda_libraries
  check_without_gpu "$gpu_image"
fi
train
check_results
check_alert
echo "passed"
