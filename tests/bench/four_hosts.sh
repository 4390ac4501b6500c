#!/bin/bash
# Times the exchange between four hosts whose links have a known bandwidth, and
# compares it with the lower bound for that bandwidth. The hosts are network
# namespaces on a bridge, each with a worker and a server (for `central`, one
# server on a fifth host). Every link is shaped in both directions. Needs root and
# an idle machine, because all hosts share its cores.
#
#   tests/bench/four_hosts.sh [flags] [variant...]
#
#   --rate R          Bandwidth of every link in each direction, in tc's
#                     notation. Default 1gbit.
#   --parameters N    Number of parameters of the model. Default 25000000.
#   --steps N         Number of steps of each run. Default 12.
#   --rounds N        Number of rounds, each with all variants. Default 3.
#   --binary PATH     The program. Default: bazel-bin/deploy/tributary.
#   --python PATH     The Python for the variant ddp, with PyTorch. Default:
#                     python3.
#   variants          Default: raw central float32 bfloat16 top-k.
#
# Further variants: `slurm` is float32, started by `tributary train` with Slurm's
# variables and a stand-in for srun that enters the namespaces; `slurm-plain` is
# the same with --insecure-network, without encryption. `pair` and `pair-plain`
# are these two on two hosts, and `ddp` is the exchange cost of PyTorch's
# DistributedDataParallel over Gloo on these two hosts: the time of a step minus
# the time of a step of the same process alone.
#
# The variant raw is a bare TCP stream, which measures the payload's fraction of
# the rate. The lower bound counts payload only, but assumes the full rate,
# including headers, so no run can reach it.
set -euo pipefail

if [[ ${FOUR_HOSTS_INSIDE:-} != yes ]]; then
  fail() { echo "error: $*" >&2; exit 2; }
  ((EUID == 0)) || fail "four_hosts.sh makes network namespaces: run it as root"
  while read -r tool package; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install $package"
  done <<<$'ip iproute2\ntc iproute2\nsysctl procps\nunshare util-linux\npython3 python3'
  # However this script ends, its processes end with their process namespace,
  # and its networks with the mounts that name them.
  FOUR_HOSTS_INSIDE=yes exec unshare --mount --net --pid --fork --kill-child \
    --mount-proc "${BASH_SOURCE[0]}" "$@"
fi

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
rate=1gbit
parameters=25000000
steps=12
rounds=3
binary=$project/bazel-bin/deploy/tributary
python=python3
variants=()
while (($# > 0)); do
  case $1 in
    --rate) rate=$2; shift ;;
    --parameters) parameters=$2; shift ;;
    --steps) steps=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --binary) binary=$(realpath "$2"); shift ;;
    --python) python=$(type -P "$2"); shift ;;
    raw | central | float32 | bfloat16 | top-k | slurm | slurm-plain | pair | pair-plain | ddp)
      variants+=("$1")
      ;;
    *) echo "error: unknown argument $1; see the head of four_hosts.sh" >&2; exit 2 ;;
  esac
  shift
done
((${#variants[@]} > 0)) || variants=(raw central float32 bfloat16 top-k)
[[ -x $binary ]] || { echo "error: $binary is missing: bazel build //deploy:tributary" >&2; exit 2; }
# The names of the networks are mounts in this temporary file system, which also
# holds the files of the runs, and is removed when the script ends.
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
folder=$(mktemp -d -p /run/netns)

address() { echo "10.77.0.$(($1 + 1))"; }
# Timeout of a run in seconds.
limit=600
on() { ip netns exec "host$1" timeout "$limit" "${@:2}"; }

# A burst of 256 KiB is 2 ms at 1 Gbit/s. With a smaller one, late timers reduce
# the throughput; with a larger one, whole chunks pass unshaped. A queue of 50 ms
# corresponds to a switch with a buffer of 6 MB.
shape() { tc "${@:2}" qdisc add dev "$1" root tbf rate "$rate" burst 256kb latency 50ms; }

make_hosts() {
  ip link add name switch type bridge
  ip link set switch up
  local host
  for host in 0 1 2 3 4; do
    ip netns add "host$host"
    ip link add "port$host" type veth peer name eth0 netns "host$host"
    ip link set "port$host" master switch up
    ip -n "host$host" addr add "$(address "$host")/24" dev eth0
    # Reno shares a link evenly between its streams, and every kernel has it. BBR,
    # the default of some machines, does not share evenly.
    on "$host" sysctl -qw net.ipv4.tcp_congestion_control=reno
    # Enough for a round trip of 8 ms. With the kernel's default of 4 MB, the six
    # streams of a link overflow the switch's 6 MB, and retransmissions cost a
    # sixth of the time.
    on "$host" sysctl -qw net.ipv4.tcp_wmem='4096 65536 1000000'
    ip -n "host$host" link set lo up
    ip -n "host$host" link set eth0 up
    shape "port$host"
    shape eth0 -n "host$host"
  done
}

# Runs one stream from host 1 to host 0. Prints payload bytes per second.
raw_stream() {
  cat >"$folder/stream.py" <<'PYTHON'
import socket, sys, time
size = 1 << 20
address = (sys.argv[2], 5001)
if sys.argv[1] == "serve":
    listener = socket.create_server(address)
    print("ready", flush=True)
    connection, _ = listener.accept()
    buffer = bytearray(size)
    while connection.recv_into(buffer):
        pass
    connection.sendall(b"!")
else:
    count = int(sys.argv[3])
    connection = socket.create_connection(address)
    start = time.monotonic()
    for _ in range(count):
        connection.sendall(bytes(size))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    print(count * size / (time.monotonic() - start))
PYTHON
  coproc SERVER { on 0 python3 "$folder/stream.py" serve "$(address 0)"; }
  local server=$SERVER_PID
  read -r <&"${SERVER[0]}"
  on 1 python3 "$folder/stream.py" send "$(address 0)" 200
  wait "$server"
}

write_job() {
  cat >"$folder/job.textproto" <<JOB
name: "four-hosts"
model { synthetic { parameters: $parameters } }
data { random { samples: 64 } }
batch { global: 4 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.01 momentum: 0.9 } }
evaluation { disabled: true }
steps: $steps
exchange { transport: WIRE $1 }
JOB
}

# Runs the job with servers on the hosts "$@". Prints the median and the minimum
# time between two steps, in ms.
exchange() {
  local coordinator servers=$# shard=0 host pids=() pid output=$folder/run
  coordinator=$(address "$1"):29400
  rm -rf "$output"
  for host in "$@"; do
    local arguments=(--listen "$(address "$host"):29400" --insecure-network
      --shard "$shard" --servers "$servers")
    if ((shard == 0)); then
      arguments=("$folder/job.textproto" "${arguments[@]}" --workers 4 --output "$output")
    else
      arguments+=(--coordinator "$coordinator")
    fi
    on "$host" "$binary" server "${arguments[@]}" 2>"$folder/server-$shard.log" >&2 &
    pids+=($!)
    shard=$((shard + 1))
  done
  for host in 0 1 2 3; do
    on "$host" "$binary" worker --coordinator "$coordinator" --rank "$host" --threads 1 \
      2>"$folder/worker-$host.log" >&2 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || { echo "error: a process failed:" >&2; tail -n 3 "$folder"/*.log >&2; exit 1; }
  done
  step_times
}

# Prints the median and the minimum time between two steps of the run, in ms.
step_times() {
  python3 -c 'import json, sys
step = json.load(open(sys.argv[1]))["step_milliseconds"]
print(step["median"], step["min"])' "$folder/run/summary.json"
}

# Runs the job with `tributary train` on the first $1 hosts, as in a Slurm
# allocation of these hosts with one task on each. The other arguments are flags.
slurm_exchange() {
  local hosts=$1
  shift
  rm -rf "$folder/run"
  mkdir -p "$folder/bin"
  cat >"$folder/bin/srun" <<'SRUN'
#!/bin/sh
while :; do
  case $1 in --nodelist=*) node=${1#*=} ;; -*) ;; *) break ;; esac
  shift
done
exec 3<&0
setsid ip netns exec "$node" env SLURM_STEP_ID=0 \
  SLURM_LAUNCH_NODE_IPADDR=10.77.0.1 "$@" <&3 3<&- &
wait
SRUN
  chmod +x "$folder/bin/srun"
  on 0 env PATH="$folder/bin:$PATH" SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=1 \
    SLURM_JOB_NODELIST="host[0-$((hosts - 1))]" SLURM_TASKS_PER_NODE="1(x$hosts)" \
    "$binary" train "$folder/job.textproto" --output "$folder/run" --quiet "$@" \
    >"$folder/train.log" 2>&1 || { echo "error: train failed:" >&2; tail -n 3 "$folder/train.log" >&2; exit 1; }
  step_times
}

# Prints the cost in ms of an exchange of DistributedDataParallel on two hosts.
ddp_cost() {
  cat >"$folder/ddp.py" <<'PYTHON'
import statistics, sys, time
import torch
import torch.distributed as dist
rank, parameters, steps, path = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(parameters // 25)) for _ in range(25))
    def forward(self, x):
        return sum((part * x).sum() for part in self.parts)
def median(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(steps):
        dist.barrier()
        start = time.monotonic()
        optimizer.zero_grad(set_to_none=False)
        model(torch.ones(1)).backward()
        optimizer.step()
        times.append(time.monotonic() - start)
    return 1e3 * statistics.median(times[2:])
alone = median(Model())
together = median(torch.nn.parallel.DistributedDataParallel(Model(), gradient_as_bucket_view=True))
if rank == 0:
    print(together - alone, alone)
PYTHON
  rm -f "$folder/rendezvous"
  on 1 env GLOO_SOCKET_IFNAME=eth0 "$python" "$folder/ddp.py" 1 "$parameters" "$steps" \
    "$folder/rendezvous" >&2 &
  local other=$!
  on 0 env GLOO_SOCKET_IFNAME=eth0 "$python" "$folder/ddp.py" 0 "$parameters" "$steps" \
    "$folder/rendezvous"
  wait "$other"
}

run() {
  case $1 in
    raw) raw_stream ;;
    slurm) write_job ''; slurm_exchange 4 ;;
    slurm-plain) write_job ''; slurm_exchange 4 --insecure-network ;;
    pair) write_job ''; slurm_exchange 2 ;;
    pair-plain) write_job ''; slurm_exchange 2 --insecure-network ;;
    ddp) ddp_cost ;;
    central) write_job ''; exchange 4 ;;
    float32) write_job ''; exchange 0 1 2 3 ;;
    bfloat16) write_job 'wire_dtype: BFLOAT16'; exchange 0 1 2 3 ;;
    # Compressed gradients are small, so fewer chunks are faster.
    top-k)
      write_job 'compression { top_k { fraction: 0.01 } } parameter_server { chunk_bytes: 3145728 }'
      exchange 0 1 2 3
      ;;
  esac
}

make_hosts
for ((round = 1; round <= rounds; ++round)); do
  for variant in "${variants[@]}"; do
    result=$(run "$variant")
    echo "round $round: $variant $result" >&2
    echo "$variant $result" >>"$folder/results"
  done
done

bytes_per_second=$(tc -j qdisc show dev port0 | python3 -c 'import json, sys
print(json.load(sys.stdin)[0]["options"]["rate"])')
python3 - "$folder/results" "$bytes_per_second" "$parameters" <<'PYTHON'
import statistics, sys
path, rate, parameters = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
results = {}
for line in open(path):
    words = line.split()
    results.setdefault(words[0], []).append([float(word) for word in words[1:]])
hosts = 4
print(f"{parameters / 1e6:g} M parameters, links of {rate * 8 / 1e9:g} Gbit/s")
if "raw" in results:
    payload = statistics.median(run[0] for run in results.pop("raw"))
    print(f"raw TCP: {payload / 1e6:.1f} MB/s of payload, "
          f"{payload / rate:.3f} of the rate")
float32 = None
print(f"{'variant':11} {'ms/exchange':>12} {'bound':>9} {'ratio':>6}  of float32")
for variant, runs in results.items():
    time = statistics.median(run[0] for run in runs)
    if variant == "float32":
        float32 = time
    share = {"top-k": None, "bfloat16": 2}.get(variant, 4)
    count = 2 if variant in ("pair", "pair-plain", "ddp") else hosts
    factor = hosts if variant == "central" else 2 * (count - 1) / count
    bound = 1e3 * factor * share * parameters / rate if share else None
    print(f"{variant:11} {time:12.1f}",
          f"{bound:9.1f} {time / bound:6.3f}" if bound else f"{'':9} {'':6}",
          f"{time / float32:11.3f}" if float32 else "")
PYTHON
