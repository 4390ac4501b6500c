#!/bin/sh
# Stands in for srun: runs the command on this machine as if it were the node of
# --nodelist. Like a task of srun, the command continues after this script was
# killed.
#   FAKE_SRUN_DOWN=NODE   this node cannot start a task
#   FAKE_SRUN_APART=NODE  the folder /proc/self/cwd of this node is its own
#   FAKE_SRUN_PIDS=FILE   receives "NODE PID" of each task
while :; do
  case $1 in
    --nodelist=*) node=${1#*=} ;;
    -*) ;;
    *) break ;;
  esac
  shift
done
if [ "$node" = "$FAKE_SRUN_DOWN" ]; then
  echo "srun: error: Unable to create step for job 1: Node $node is down" >&2
  exit 1
fi
if [ "$node" = "$FAKE_SRUN_APART" ]; then
  mkdir "$FAKE_SRUN_PIDS.$node" && cd "$FAKE_SRUN_PIDS.$node" || exit 1
fi
export SLURMD_NODENAME="$node" SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 \
  SLURM_STEP_ID=0
# The task writes its PID itself, before it runs the command: the command may make
# its starter kill this script. A shell connects the input of background commands
# to /dev/null.
exec 3<&0
setsid sh -c '
  if [ -n "$FAKE_SRUN_PIDS" ]; then echo "$0 $$" >>"$FAKE_SRUN_PIDS"; fi
  exec "$@"' "$node" "$@" <&3 3<&- &
pid=$!
exec 3<&- </dev/null
wait $pid
