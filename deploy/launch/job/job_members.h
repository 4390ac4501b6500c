// The servers and workers of a job, as its runner sees them.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MEMBERS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MEMBERS_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "deploy/launch/job/job_messages.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/restart_policy.h"

namespace tributary {

// Starts and restarts the processes of a job through a ProcessControl, and
// knows which process is which server or worker. Not thread-safe. No method
// blocks.
class JobMembers {
 public:
  // Describes how to start a process; `number` is its shard or its rank, and
  // `address` is the coordinator's, as passed to set_address.
  using Describer = std::function<ProcessSpec(Role role, int number,
                                              const std::string& address)>;

  // `processes` and `messages` must outlive this object.
  JobMembers(ProcessControl* processes, Describer describe, int max_restarts,
             JobMessages* messages)
      : processes_(*processes),
        describe_(std::move(describe)),
        messages_(*messages),
        restarts_(max_restarts) {}

  // Starts a server or worker. Returns the error of ProcessControl::Start.
  absl::Status Start(Role role, int number);
  // Restarts the process that has ended, if RestartPolicy allows it, and says
  // so. Returns nullopt if it does not, and otherwise the status of Start.
  absl::optional<absl::Status> Restart(const ProcessExit& exit);
  // Starts all processes again that have ended. Returns the error of Start.
  absl::Status StartEnded();
  void set_address(const std::string& address) { address_ = address; }
  const std::string& address() const { return address_; }

  // Returns the processes that have ended since the last call, servers first,
  // so that the cause of an end precedes its consequences.
  std::vector<ProcessExit> Reap();
  // Shows the warnings that processes have written since the last call if
  // `shows` is true, and drops them otherwise. Returns true if a process has
  // reported that it is busy stopping the job.
  bool PassWarnings(bool shows);
  // Returns the end of a sentence that begins with the process's name.
  std::string Describe(const ProcessExit& exit) const;
  // Returns true if the process has completed a step.
  bool HasWorked(const ProcessExit& exit) const {
    return restarts_.IsPastStart(spec(exit.process).name);
  }

  // Sends SIGTERM to the process, which receives it also if it is suspended.
  void Terminate(int process);
  void TerminateAll();

  int server_0() const { return latest_.at({Role::kServer, 0}); }
  int Running(Role role) const;
  const ProcessSpec& spec(int process) const {
    return processes_.spec(process);
  }
  // See JobRunner.
  std::vector<pid_t> pids() const;

 private:
  ProcessControl& processes_;
  const Describer describe_;
  JobMessages& messages_;
  RestartPolicy restarts_;
  std::string address_;  // Of the coordinator; empty until it is known.
  // Number of the latest process of each server, by shard, and of each worker,
  // by rank.
  std::map<std::pair<Role, int>, int> latest_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MEMBERS_H_
