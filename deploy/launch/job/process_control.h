// Processes of a job: on this machine, on other machines, or as threads.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/shutdown.h"
#include "common/transport/security.h"
#include "deploy/launch/job/process_exit.h"

namespace tributary {

// How a process that is a thread of this process reaches its runner.
struct ThreadContext {
  // Requested when the process is to end soon.
  Shutdown* shutdown = nullptr;
  // A server calls it with the address at which it listens.
  std::function<void(const std::string& address)> ready;
  // Passes on a line that a process of its own would write to kWarningFd (see
  // Supervisor). Never blocks; thread-safe until the process has ended.
  std::function<void(absl::string_view line)> warn;
};

struct ProcessSpec {
  // The name of the process in messages, such as "worker-1".
  std::string name;
  // The arguments of the program, of which arguments[0] is its path.
  std::vector<std::string> arguments;
  // All environment variables of the process, as "NAME=value".
  std::vector<std::string> environment;
  // File that receives the standard output and error of the process. The file
  // is truncated first unless `append` is true.
  std::string log_path;
  bool append = false;
  // What the process reads from its standard input.
  std::string input;
  // The machine on which to start the process. Used only by implementations of
  // ProcessControl that start processes on several machines.
  std::string node;
  // The role of the process in its job, and its shard or its rank. JobRunner
  // sets both.
  Role role = Role::kServer;
  int number = 0;
  // What the process does if it is a thread of this process (ProcessThreads).
  // Null for all other processes, which run a program.
  std::function<absl::Status(const ThreadContext& context)> body;
};

struct ProcessState {
  ProcessSpec spec;
  bool running = true;
  // The process id on the process's machine; -1 if it is not known.
  pid_t pid = -1;
  // Length in bytes of the log file when the process was started: the offset at
  // which the process's own log begins.
  int64_t log_begin = 0;
};

// Starts processes, detects their exits and ends them. The destructor ends all
// processes. Not thread-safe.
class ProcessControl {
 public:
  virtual ~ProcessControl() = default;

  // Starts a process and returns its number: 0, 1, ... in the order of starts.
  // Returns Internal, with the process's name and the reason, if it cannot be
  // started.
  virtual absl::StatusOr<int> Start(const ProcessSpec& spec) = 0;

  // Returns the first line that the process has written to kReadyFd (see
  // Supervisor), without the line end; nullopt until the line is complete.
  // Never blocks.
  virtual absl::optional<std::string> ReadyText(int process) = 0;

  // Returns the complete lines that the process has written to kWarningFd (see
  // Supervisor) since the last call, without the line ends. Never blocks.
  virtual std::vector<std::string> TakeWarnings(int process) = 0;

  // Returns the processes that have ended since the last call. Never blocks.
  virtual std::vector<ProcessExit> Reap() = 0;

  // Sends `signal` to the process group of a process, if the process is
  // running.
  virtual void Signal(int process, int signal) = 0;

  virtual const ProcessState& state(int process) const = 0;
  // Returns the number of processes that were started, including those that
  // have ended.
  virtual int size() const = 0;

  // Returns a signal that was sent to the whole job on another machine since
  // the last call, such as a SIGTERM of the scheduler; 0 if there was none.
  // Never blocks.
  virtual int TakeSignal() { return 0; }

  bool running(int process) const { return state(process).running; }
  int running_count() const {
    int count = 0;
    for (int process = 0; process < size(); ++process) {
      count += running(process) ? 1 : 0;
    }
    return count;
  }
  pid_t pid(int process) const { return state(process).pid; }
  const ProcessSpec& spec(int process) const { return state(process).spec; }

  // Sends `signal` to the process groups of all running processes.
  void SignalAll(int signal) {
    for (int process = 0; process < size(); ++process) Signal(process, signal);
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_
