// The agent that runs a job's processes on one node of a Slurm allocation.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_AGENT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_AGENT_H_

#include "deploy/flags/environment.h"

namespace tributary {

// Runs the agent, which starts the processes of a job on one node of a Slurm
// allocation, and returns the agent's exit code. srun starts the agent as
// `tributary node-agent`, a command that --help does not list:
//
//   1. The agent reads one line from its standard input: the address of the
//      launcher (NodeSupervisor), the agent's number and its credentials.
//   2. It connects to the launcher and calls NodeAgents.Attend. The launcher
//      then kills srun, because srun would kill the agent as soon as Slurm
//      sends SIGTERM to the batch script's processes, and leave no time for a
//      checkpoint.
//   3. It starts and signals processes as the launcher requests, and reports
//      what they write to kReadyFd and kWarningFd, and how they end. It
//      reports the signals that it receives itself from Slurm and does not obey
//      them.
//   4. It kills its processes and ends when the launcher requests that, when
//      the connection is lost, or when the launcher is silent for 20 seconds.
//      If the agent is killed, the kernel kills its processes (see Supervisor).
int RunNodeAgent(const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_AGENT_H_
