#!/bin/bash
# Runs jobs on a real Slurm of three nodes on this machine (cluster.sh): a job
# that is not disturbed, signals, a preemption and requeue on two nodes, a lost
# node with and without --no-kill, and a heterogeneous job. All must end with
# the same weights, without a manual step. Also a search in an array of tasks, of
# which one is cancelled, one is requeued and one is killed, or all are preempted,
# and which must end as one in a single process. Prints the times.
#   tests/slurm/run.sh [--patient] [CASE...]
# --patient waits the two minutes for which Slurm holds a requeued job; without
# it, a command releases the job at once. Needs root and Debian's slurmctld, slurmd,
# slurm-client, slurm-wlm-basic-plugins, munge and iproute2. Takes about five
# minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/slurm/cluster.sh

if ! have_slurm || ((EUID != 0)); then
  echo "skipped: needs root, slurmctld, slurmd, slurm-client, munge, iproute2"
  exit 0
fi
patient=no
if [[ ${1:-} == --patient ]]; then patient=yes && shift; fi
cases=("$@")
((${#cases[@]} > 0)) || cases=(plain signals preempted lost lost_no_kill het search search_preempted)

program=$(realpath "${TRIBUTARY:-bazel-bin/deploy/tributary}")
folder=$(mktemp -d /tmp/tributary-slurm-XXXXXX)
failures=0
trap 'stop_cluster; rm -rf "$folder"' EXIT
mkdir "$folder/bin"
ln -s "$program" "$folder/bin/tributary"
export PATH=$folder/bin:$PATH
steps=${STEPS:-1000}
cat >"$folder/job.textproto" <<JOB
name: "slurm"
model { gpt { layers: 2 heads: 4 width: 64 context: 64 dropout: 0.1 } }
data { text { path: "$PWD/examples/licenses.textproto" } }
batch { global: 8 micro_batches: 8 }
optimizer { adamw { learning_rate: 0.003 } }
steps: $steps
checkpoint { every_steps: 25 }
output { log_every_steps: 1 sample_bytes: 0 }
JOB

say() { printf '%(%T)T %s\n' -1 "$*"; }
fail() {
  say "FAILED: $*"
  failures=$((failures + 1))
}
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }'; }
digest() { grep -o '"weights_sha256": "[0-9a-f]*' "$1/summary.json" 2>/dev/null | cut -d'"' -f4; }
lines() { if [[ -f $1/metrics.jsonl ]]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; }

# A job whose number of nodes may vary, as the template describes it.
sed '/^#SBATCH --ntasks-per-node=/d' deploy/launch/slurm/tributary.sbatch \
  >"$folder/elastic.sbatch"

# Submits a batch script, by default the template, with options of sbatch.
script=deploy/launch/slurm/tributary.sbatch
submit() {
  output=$folder/$1
  shift
  job=$(sbatch --parsable --chdir="$folder" --output="$output.out" \
    --cpus-per-task=1 --time=30 "$@" \
    "$script" "$folder/job.textproto" --output "$output")
  job=${job%%;*}
}

state() { scontrol --oneliner show job "$job" 2>/dev/null | head -n 1 | grep -o " $1=[^ ]*" | cut -d= -f2; }

await_lines() {
  local i
  for ((i = 0; i < 600; ++i)); do
    (($(lines "$output") >= $1)) && return 0
    sleep 0.1
  done
  fail "$output: no line $1 of metrics; the job is $(state JobState)"
  tail -n 5 "$output.out"
  return 1
}

await_state() {
  local i
  for ((i = 0; i < 6000; ++i)); do
    [[ $(state JobState) =~ ^($1)$ ]] && return 0
    sleep 0.1
  done
  fail "job $job is $(state JobState), expected $1"
  return 1
}

# Waits until the job's requeued run has made a step.
await_resumed() {
  local before began
  await_state 'PENDING|REQUEUED|SUSPENDED' || return 1
  before=$(lines "$output")
  if [[ $patient == no ]]; then
    sleep 2
    scontrol update jobid="$job" StartTime=now
  fi
  began=$(seconds)
  await_state RUNNING || return 1
  local started=$(seconds)
  await_lines $((before + 1)) || return 1
  say "  requeued on $(state NodeList): first new step $(since "$started") s after the start, $(since "$began") s after it could start"
}

expect_done() {
  await_state 'COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED' || return 1
  if [[ $(digest "$output") != "$expected" ]]; then
    fail "$output: $(state JobState), weights $(digest "$output"), expected $expected"
    tail -n 5 "$output.out"
  else
    say "  weights_sha256 as expected; $(state NumNodes) nodes"
  fi
}

# The command lines of the launchers, agents, servers and workers that run.
processes() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    { tr '\0' ' ' <"$file" && echo; } 2>/dev/null
  done | grep -E "^$program (node-agent|server|worker) |^tributary train $folder"
}

expect_no_process() {
  local i
  for ((i = 0; i < 300; ++i)); do
    [[ -z $(processes) ]] && return 0
    sleep 0.2
  done
  fail "processes are left: $(processes)"
}

case_plain() {
  submit plain --nodes=3 --ntasks=3
  expect_done
}

case_signals() {
  local signal began
  for signal in TERM USR1 USR2; do
    submit "signal-$signal" --nodes=3 --ntasks=3 --no-requeue
    await_lines 20 || return 1
    began=$(seconds)
    # To the batch script and to all steps at once.
    scancel --full --signal="$signal" "$job"
    await_state 'COMPLETED|FAILED|CANCELLED'
    if [[ $(state ExitCode) != 75:0 ]]; then
      fail "exit code $(state ExitCode) after SIG$signal"
      tail -n 3 "$output.out"
    fi
    say "  SIG$signal: exit code 75 after $(since "$began") s;" \
      "$(grep -o 'resume from step [0-9]*' "$output.out" | tail -n 1)"
    expect_no_process
  done
  # A plain scancel: SIGTERM to all processes of the job, SIGKILL after 30 s.
  submit cancelled --nodes=3 --ntasks=3 --no-requeue
  await_lines 20 || return 1
  began=$(seconds)
  scancel "$job"
  expect_no_process
  say "  scancel: ended after $(since "$began") s;" \
    "$(grep -o 'resume from step [0-9]*' "$output.out" | tail -n 1)"
  grep -q 'resume from step' "$output.out" || fail "no checkpoint after scancel"
}

case_preempted() {
  local script=$folder/elastic.sbatch
  submit preempted --nodes=2-3 --exclusive --cpus-per-task=4
  await_lines 100 || return 1
  say "  runs on $(state NodeList)"
  local high
  high=$(sbatch --parsable --partition=high --nodelist=n0 --exclusive \
    --output=/dev/null --wrap 'sleep 900')
  await_resumed
  expect_done
  scancel "$high"
}

# The node of the batch script, the launcher and server 0 is lost.
case_lost() {
  local script=$folder/elastic.sbatch
  submit lost --nodes=2-3 --exclusive --cpus-per-task=4
  await_lines 100 || return 1
  say "  runs on $(state NodeList); n0 is killed"
  local began=$(seconds)
  kill_node n0
  await_state 'PENDING|REQUEUED' || return 1
  say "  Slurm requeued the job after $(since "$began") s"
  await_resumed
  expect_done
  start_node n0
}

case_lost_no_kill() {
  submit no-kill --nodes=3 --ntasks=3 --no-kill
  await_lines 100 || return 1
  say "  runs on $(state NodeList); n2 is killed"
  kill_node n2
  expect_done
  grep -o 'warning: [a-z]*-[0-9] was lost.*' "$output.out" | head -n 2
  [[ $(state Restarts) == 0 ]] || fail "the job was requeued"
  start_node n2
}

case_het() {
  output=$folder/het
  job=$(sbatch --parsable --chdir="$folder" --output="$output.out" \
    --time=30 --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 : \
    --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 \
    "$script" "$folder/job.textproto" --output "$output")
  job=${job%%;*}
  expect_done
  grep -m 1 '^training' "$output.out"
}

journal_lines() { if [[ -f $1/study.journal ]]; then wc -l <"$1/study.journal"; else echo 0; fi; }

await_journal() {
  local i
  for ((i = 0; i < 1200; ++i)); do
    (($(journal_lines "$output") >= $1)) && return 0
    sleep 0.1
  done
  fail "$output: no line $1 of the journal"
  tail -n 5 "$output"-*.out
  return 1
}

# Runs the search in one process, as a reference, and submits the template as an
# array of four tasks, which fill a node.
submit_search() {
  local began
  cat >"$folder/search.textproto" <<SEARCH
name: "slurm"
job: "job.textproto"
set: "steps=270"
set: "checkpoint.every_steps=10"
parameter {
  path: "optimizer.adamw.learning_rate"
  number { low: 3e-4 high: 3e-2 log: true }
}
parameter { path: "model.gpt.width" choice { value: "16" value: "64" } }
objective { metric: "final_loss" goal: MINIMIZE }
sampler { sobol {} }
scheduler { successive_halving { eta: 3 rungs: 4 } }
budget { trials: 27 }
SEARCH
  if [[ ! -d $folder/alone ]]; then
    began=$(seconds)
    tributary tune "$folder/search.textproto" --output "$folder/alone" --quiet >/dev/null
    say "  one process, without Slurm: $(since "$began") s"
  fi
  output=$folder/$1
  search_began=$(seconds)
  job=$(sbatch --parsable --chdir="$folder" --output="$output-%a.out" \
    --array=0-3 --cpus-per-task=1 --time=30 deploy/launch/slurm/tune.sbatch \
    "$folder/search.textproto" --output "$output" --lease 5)
  job=${job%%;*}
}

tasks() { squeue --noheader --array --jobs="$job" --states=all --format="%K:$1" | sort | tr '\n' ' '; }

# Ends the wait for tasks that Slurm holds after a requeue.
release_tasks() {
  local id
  [[ $patient == no ]] || return 0
  for id in $(squeue --noheader --array --jobs="$job" --states=PENDING --format=%A); do
    scontrol update jobid="$id" StartTime=now
  done
}

expect_search_done() {
  while [[ $(tasks %T) =~ RUNNING|PENDING|COMPLETING ]]; do sleep 0.5; done
  say "  array: $(since "$search_began") s; the tasks ended $(tasks %T)"
  if diff <(tributary tune status "$folder/alone" --json) \
    <(tributary tune status "$output" --json) >"$folder/diff"; then
    say "  proposals, results, winner and digests as in one process"
  else
    fail "the search differs: $(head -n 5 "$folder/diff")"
    tail -n 5 "$output"-*.out
  fi
}

# One task is cancelled, one is requeued, and one is killed.
case_search() {
  submit_search search
  await_journal 20 || return 1
  say "  tasks on $(tasks %N)"
  scancel "${job}_1"
  await_journal 40 || return 1
  scontrol requeue "${job}_2" || fail "task 2 was not requeued"
  await_journal 60 || return 1
  scancel --batch --signal=KILL "${job}_3"
  await_journal 70 || return 1
  release_tasks
  expect_search_done
}

# All tasks are preempted at once, and requeue themselves.
case_search_preempted() {
  submit_search search-preempted
  await_journal 40 || return 1
  say "  tasks on $(tasks %N)"
  local high i
  high=$(sbatch --parsable --partition=high --nodelist="$(squeue --noheader --jobs="${job}_0" --format=%N)" \
    --exclusive --output=/dev/null --wrap 'sleep 900')
  for ((i = 0; i < 300; ++i)); do
    [[ $(tasks %T) =~ RUNNING|COMPLETING ]] || break
    sleep 0.2
  done
  [[ $(tasks %T) =~ ^(.:PENDING ){4}$ ]] || fail "after the preemption: $(tasks %T)"
  sleep 2
  release_tasks
  expect_search_done
  scancel "$high"
}

expected() {
  tributary train "$folder/job.textproto" --output "$folder/expected" \
    --workers 1 --quiet >/dev/null && digest "$folder/expected"
}

say "reference on this machine, without Slurm"
expected=$(expected) || exit 1
say "  weights_sha256 $expected"
start_cluster "$folder/cluster" || exit 1
for name in "${cases[@]}"; do
  say "$name"
  "case_$name"
  expect_no_process
  for ((i = 0; i < 100; ++i)); do
    [[ $(sinfo --noheader --format=%D --states=idle) == 3 ]] && break
    sleep 0.3
  done
done
say "$failures failures"
((failures == 0))
