// Child processes that cannot outlive this one.
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

// The file descriptor that a child may write its address to; see
// Supervisor::ReadyText.
inline constexpr int kReadyFd = 3;
// The file descriptor that a child may write warnings to, one a line; see
// Supervisor::TakeWarnings. Writing never blocks: what does not fit is lost.
inline constexpr int kWarningFd = 4;

struct ProcessSpec {
  // What messages call it: "worker-1".
  std::string name;
  // arguments[0] is the path of the program.
  std::vector<std::string> arguments;
  // "NAME=value" of every variable that it gets.
  std::vector<std::string> environment;
  // Gets its standard output and error; made anew, unless `append`. Its
  // standard input is empty.
  std::string log_path;
  bool append = false;
};

struct ProcessExit {
  int process = -1;
  // As from waitpid.
  int wait_status = 0;

  bool succeeded() const;
  bool killed_by_signal() const;
};

// Starts processes, notices their ends and ends them. Whatever happens to this
// process, the kernel kills its children: each asks for SIGKILL on its parent's
// death, which is the death of the *thread* that started it, so start them from
// a thread that stays. Each child leads a process group of its own, so that a
// terminal's Ctrl-C reaches only us, and so that what it starts ends with it.
// Not thread-safe.
class Supervisor {
 public:
  Supervisor() = default;
  // Kills what still runs, and waits for it.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Returns the number of the process: 0, 1, ... in the order of starts.
  // Internal or Unavailable, naming the process, when it cannot be started.
  absl::StatusOr<int> Start(const ProcessSpec& spec);

  // The line that the process has written to kReadyFd, without its end; nullopt
  // until it is whole. Never waits.
  absl::optional<std::string> ReadyText(int process);

  // The whole lines that the process has written to kWarningFd since the last
  // call, without their ends. Never waits.
  std::vector<std::string> TakeWarnings(int process);

  // The processes that ended since the last call. Never waits.
  std::vector<ProcessExit> Reap();

  // Sends `signal` to the groups of all processes that still run.
  void SignalAll(int signal);
  void Signal(int process, int signal);

  bool running(int process) const { return children_[process].running; }
  int running_count() const;
  pid_t pid(int process) const { return children_[process].pid; }
  // How long its log was when it was started.
  int64_t log_begin(int process) const { return children_[process].log_begin; }
  const ProcessSpec& spec(int process) const { return children_[process].spec; }

 private:
  // The end of a pipe from which lines are read.
  struct LinePipe {
    int fd = -1;
    std::string text;  // What has come and was not taken.

    // Takes in what is there; closes the pipe at its end, and after
    // `most_bytes` that were not taken.
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

// "exited with code 1", "was killed by SIGKILL (out of memory?)".
std::string DescribeExit(int wait_status);

// The last line of a log from byte `begin` on that starts with "error: ",
// without that; empty if there is none near its end.
std::string LastErrorIn(const std::string& log_path, int64_t begin = 0);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_SUPERVISOR_H_
