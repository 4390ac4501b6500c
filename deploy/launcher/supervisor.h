// Child processes that cannot outlive this process.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_SUPERVISOR_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace tributary {

// The file descriptor to which a child may write its address; see
// Supervisor::ReadyText.
inline constexpr int kReadyFd = 3;
// The file descriptor to which a child may write warnings, one per line; see
// Supervisor::TakeWarnings. Writes never block; data that does not fit into the
// pipe is lost.
inline constexpr int kWarningFd = 4;

struct ProcessSpec {
  // The name in messages, such as "worker-1".
  std::string name;
  // arguments[0] is the path of the program.
  std::vector<std::string> arguments;
  // All environment variables of the process, as "NAME=value".
  std::vector<std::string> environment;
  // File that receives the standard output and error of the process. The file
  // is truncated first unless `append` is true. The standard input of the
  // process is empty.
  std::string log_path;
  bool append = false;
};

struct ProcessExit {
  int process = -1;  // Number of the process, as returned by Start.
  // The status of the process at its end, as returned by waitpid.
  int wait_status = 0;

  bool succeeded() const;
  bool killed_by_signal() const;
};

// Starts processes, detects their exits and ends them. The kernel kills the
// children if this process ends for any reason: each child asks the kernel to
// send it SIGKILL when its parent ends. To the kernel, the parent is the
// *thread* that started the child, so start children from a thread that
// outlives them. Each child leads its own process group, so that a terminal's
// Ctrl-C reaches only this process, and so that the descendants of a child end
// with it. Not thread-safe.
class Supervisor {
 public:
  Supervisor() = default;
  // Kills the running processes and waits for them.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts a process and returns its number: 0, 1, ... in the order of starts.
  // Returns Internal, with the process's name and the system's error, if it
  // cannot be started.
  absl::StatusOr<int> Start(const ProcessSpec& spec);

  // Returns the first line that the process has written to kReadyFd, without
  // the line end; nullopt until the line is complete. Never blocks.
  absl::optional<std::string> ReadyText(int process);

  // Returns the complete lines that the process has written to kWarningFd since
  // the last call, without the line ends. Never blocks.
  std::vector<std::string> TakeWarnings(int process);

  // Returns the processes that have ended since the last call. Never blocks.
  std::vector<ProcessExit> Reap();

  // Sends `signal` to the process groups of all running processes.
  void SignalAll(int signal);
  // Sends `signal` to the process group of a process, if the process is
  // running.
  void Signal(int process, int signal);

  bool running(int process) const { return children_[process].running; }
  int running_count() const;
  pid_t pid(int process) const { return children_[process].pid; }
  // Returns the length in bytes of the log file when the process was started:
  // the offset at which the process's own log begins.
  int64_t log_begin(int process) const { return children_[process].log_begin; }
  const ProcessSpec& spec(int process) const { return children_[process].spec; }

 private:
  // The read end of a pipe that carries lines.
  struct LinePipe {
    int fd = -1;
    std::string text;  // Data that was read from the pipe but not yet returned.

    // Reads the available data. Closes the pipe when the writer has closed it,
    // or when `text` exceeds `most_bytes`.
    void Read(size_t most_bytes);
    void Close();
  };

  struct Child {
    ProcessSpec spec;
    pid_t pid = -1;
    bool running = false;
    int64_t log_begin = 0;
    LinePipe ready;
    LinePipe warnings;
  };

  std::vector<Child> children_;
};

// Describes how a process ended, for example as "exited with code 1" or "was
// killed by SIGTERM". `wait_status` is as returned by waitpid.
std::string DescribeExit(int wait_status);

// Searches a log, starting at byte `begin`, for the last line that starts with
// "error: ". Returns the line without this prefix, or an empty string if there
// is no such line near the end of the log.
std::string LastErrorIn(const std::string& log_path, int64_t begin = 0);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_SUPERVISOR_H_
