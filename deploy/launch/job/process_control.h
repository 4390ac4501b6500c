// Processes of a job that the launcher starts, here or on other machines.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace tributary {

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
  // The machine on which to start the process, and the role whose credentials
  // it gets. Used only by implementations of ProcessControl that start
  // processes on several machines.
  std::string node;
  std::string role;
};

struct ProcessExit {
  int process = -1;  // Number of the process, as returned by Start.
  // The status of the process at its end, as returned by waitpid.
  int wait_status = 0;
  // Describes how the process ended if `wait_status` does not; otherwise empty.
  // Messages append it to the process's name, as in "worker-3 REASON".
  std::string reason = {};

  bool succeeded() const;
  bool killed_by_signal() const;
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

  virtual bool running(int process) const = 0;
  virtual int running_count() const = 0;
  // Returns the process id on the process's machine; -1 if it is not known.
  virtual pid_t pid(int process) const = 0;
  // Returns the length in bytes of the log file when the process was started:
  // the offset at which the process's own log begins.
  virtual int64_t log_begin(int process) const = 0;
  virtual const ProcessSpec& spec(int process) const = 0;
  // Returns the number of processes that were started, including those that
  // have ended.
  virtual int size() const = 0;

  // Returns a signal that was sent to the whole job on another machine since
  // the last call, such as a SIGTERM of the scheduler; 0 if there was none.
  // Never blocks.
  virtual int TakeSignal() { return 0; }

  // Sends `signal` to the process groups of all running processes.
  void SignalAll(int signal) {
    for (int process = 0; process < size(); ++process) Signal(process, signal);
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_CONTROL_H_
