// Child processes that cannot outlive this process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_SUPERVISOR_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/launch/job/process_control.h"

namespace tributary {

// The file descriptor to which a child process may write the address at which
// it listens; see ProcessControl::ReadyText.
inline constexpr int kReadyFd = 3;
// The file descriptor to which a child process may write warnings, one per
// line; see ProcessControl::TakeWarnings. Writes never block; data that does
// not fit into the pipe is lost.
inline constexpr int kWarningFd = 4;

// The processes of a job on this machine. The kernel kills the children if this
// process ends for any reason: each child asks the kernel to send it SIGKILL
// when its parent ends. To the kernel, the parent is the *thread* that started
// the child, so start children from a thread that outlives them. Each child
// leads its own process group, so that a terminal's Ctrl-C reaches only this
// process, and so that the descendants of a child end with it. Not thread-safe.
class Supervisor final : public ProcessControl {
 public:
  Supervisor() = default;
  // Kills the child processes that still run, and waits until they have ended.
  ~Supervisor() override;
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  absl::StatusOr<int> Start(const ProcessSpec& spec) override;
  absl::optional<std::string> ReadyText(int process) override;
  std::vector<std::string> TakeWarnings(int process) override;
  std::vector<ProcessExit> Reap() override;
  void Signal(int process, int signal) override;
  const ProcessState& state(int process) const override {
    return children_[process];
  }
  int size() const override { return static_cast<int>(children_.size()); }

 private:
  // The read end of a pipe through which a child process sends lines of text.
  struct LinePipe {
    int fd = -1;
    std::string text;  // Data that was read from the pipe but not yet returned.

    // Reads the available data. Closes the pipe when the writer has closed it,
    // or when `text` exceeds `most_bytes`.
    void Read(size_t most_bytes);
    void Close();
  };

  struct Child : ProcessState {
    LinePipe ready;
    LinePipe warnings;
  };

  std::vector<Child> children_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_SUPERVISOR_H_
