#!/bin/bash
# Starts and stops a Slurm cluster of three nodes, n0 to n2, on this machine:
# munge, slurmctld and three slurmd. To be sourced by a script that runs as
# root:
#   start_cluster FOLDER   starts the daemons; their state and logs are in FOLDER
#   stop_cluster           ends all jobs and daemons
# `start_cluster` sets SLURM_CONF, so that sbatch, srun and scancel find the
# cluster.

have_slurm() {
  local program
  for program in munged slurmctld-wlm slurmd-wlm sbatch srun scancel ss; do
    type -P "$program" >/dev/null || return 1
  done
}

start_cluster() {
  cluster=$1
  local host node number
  host=$(hostname -s)
  mkdir -p "$cluster"/{state,log,spool}
  head -c 1024 /dev/urandom >"$cluster/munge.key"
  chmod 700 "$cluster"
  chmod 400 "$cluster/munge.key"
  chown -R 0:0 "$cluster"
  munged --force --socket="$cluster/munge.socket" \
    --key-file="$cluster/munge.key" --pid-file="$cluster/munge.pid" \
    --log-file="$cluster/log/munge.log" --seed-file="$cluster/munge.seed"
  export SLURM_CONF=$cluster/slurm.conf
  cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket
CredType=cred/munge
SlurmctldPort=${cluster_port:-36810}
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmctldLogFile=$cluster/log/slurmctld.log
StateSaveLocation=$cluster/state
SlurmdPidFile=$cluster/%n.pid
SlurmdLogFile=$cluster/log/%n.log
SlurmdSpoolDir=$cluster/spool/%n
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=${cluster_slurmd_timeout:-20}
KillWait=30
MinJobAge=3600
CONF
  for number in 0 1 2; do
    echo "NodeName=n$number NodeHostname=$host NodeAddr=127.0.0.1" \
      "Port=$((${cluster_port:-36810} + 10 + number)) CPUs=4 RealMemory=4000"
    mkdir -p "$cluster/spool/n$number"
  done >>"$SLURM_CONF"
  cat >>"$SLURM_CONF" <<CONF
PartitionName=low Nodes=n[0-2] Default=YES PriorityTier=1 GraceTime=20 MaxTime=60
PartitionName=high Nodes=n[0-2] PriorityTier=10 PreemptMode=OFF MaxTime=60
CONF
  slurmctld-wlm -c
  for node in n0 n1 n2; do start_node "$node"; done
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    if [[ $(sinfo --noheader --format=%D --states=idle 2>/dev/null) == 3 ]]; then
      return 0
    fi
    sleep 0.2
  done
  echo "the cluster did not start; its logs are in $cluster/log" >&2
  return 1
}

start_node() {
  slurmd-wlm -N "$1" -f "$SLURM_CONF" -d "$(type -P slurmstepd-wlm)"
}

# Prints the ids of a process and of all its descendants.
tree_of() {
  local child
  echo "$1"
  for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
    tree_of "$child"
  done
}

# Kills a node as a power failure would: its slurmd, and the daemons and
# processes of all steps there.
kill_node() {
  local daemon pids=()
  # Each step's daemon listens on a socket in the node's spool folder.
  for daemon in $(ss --unix --listening --processes --no-header |
    grep "$cluster/spool/$1/" | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u) \
    "$(<"$cluster/$1.pid")"; do
    pids+=($(tree_of "$daemon"))
  done
  kill -KILL "${pids[@]}"
  rm -f "$cluster/$1.pid"
}

stop_cluster() {
  [[ -n ${cluster:-} ]] || return 0
  local file pid tries
  scancel --user=root 2>/dev/null
  for ((tries = 0; tries < 50; ++tries)); do
    [[ -z $(squeue --noheader 2>/dev/null) ]] && break
    sleep 0.2
  done
  for file in "$cluster"/n?.pid "$cluster/slurmctld.pid" "$cluster/munge.pid"; do
    [[ -f $file ]] || continue
    pid=$(<"$file")
    kill "$pid" 2>/dev/null
    for ((tries = 0; tries < 50; ++tries)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
  done
  cluster=
}
