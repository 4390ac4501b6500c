// Shows the progress of a job in the output of server 0.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_CONSOLE_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_CONSOLE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/thread.h"
#include "deploy/launch/job/progress_display.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Writes the progress and the events of a job to a file descriptor, as lines.
// For a server that a user, or a cluster, has started without `tributary
// train`. Writes on a thread of its own, and drops what the reader of the
// descriptor does not accept within kPatience: a reader that stops reading
// delays nothing. Thread-safe; only ShowResults and the destructor block.
class ProgressConsole {
 public:
  // Minimum time between two progress lines, unless an evaluation or the end of
  // the job comes in between.
  static constexpr absl::Duration kLineInterval = absl::Seconds(10);
  // Minimum time between two messages about completed checkpoints.
  static constexpr absl::Duration kCheckpointInterval = absl::Minutes(1);
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  // Maximum number of lines that may wait to be written. Further lines are
  // dropped.
  static constexpr size_t kMostWaiting = 256;

  // Writes JSON objects instead of text if `json` is true. `fd` must stay open
  // while this object exists.
  ProgressConsole(int fd, bool json);
  // Writes what waits.
  ~ProgressConsole();

  // Queues the newest status of the job.
  void Show(const StatusReply& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Queues a message about an event. Ignores events of severity ERROR, because
  // the process ends with an error message of its own.
  void Tell(const JobEvent& event) ABSL_LOCKS_EXCLUDED(mu_);
  // Reads the summary of the finished run in `directory`, and queues the last
  // progress line and, as text, the results. No effect if there is no summary.
  void ShowResults(const std::string& directory) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Item = std::variant<StatusReply, std::string>;

  void Push(Item item) ABSL_LOCKS_EXCLUDED(mu_);
  // The body of `thread_`.
  void WriteUntilStopped() ABSL_LOCKS_EXCLUDED(mu_);
  void Write(const Item& item);

  const int fd_;
  const bool json_;
  ProgressDisplay display_;  // Used by `thread_` only.
  absl::Mutex mu_;
  std::deque<Item> waiting_ ABSL_GUARDED_BY(mu_);
  StatusReply newest_ ABSL_GUARDED_BY(mu_);
  absl::Time last_checkpoint_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_CONSOLE_H_
