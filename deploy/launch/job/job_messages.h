// What the runner of a job tells the user about the job's processes.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MESSAGES_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MESSAGES_H_

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "deploy/launch/job/process_control.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Shows warnings to the user, and reports events to the coordinator. Not
// thread-safe.
class JobMessages {
 public:
  // `show` receives lines for the user and may be null. `report` receives an
  // event (see JobEvent in proto/rendezvous.proto) for each lost process, when
  // the process is restarted or when the job continues without it.
  JobMessages(std::function<void(const std::string&)> show,
              std::function<void(JobEvent)> report)
      : show_(std::move(show)), report_(std::move(report)) {}

  // Shows a line that a process has written to kWarningFd. Shows each text only
  // once, with the name of the first process that wrote it. After 100 different
  // texts, one message refers to the logs for all others.
  void PassOn(const ProcessSpec& process, const std::string& line);
  // Reports an event of kind `kind` about the process, and shows `text` as a
  // warning.
  void Warn(const ProcessSpec& process, const std::string& kind,
            const std::string& text);
  // Like Warn, but shows the warning only when ShowHeldBack is called, or when
  // ShowDue is called after `due`: most often no worker can take part, and then
  // the error of the job says why.
  void WarnLater(const ProcessSpec& process, const std::string& kind,
                 const std::string& text, absl::Time due);
  void ShowDue(absl::Time now);
  void ShowHeldBack();

 private:
  void Show(const std::string& text) const;
  void Report(const ProcessSpec& process, const std::string& kind,
              const std::string& text) const;

  const std::function<void(const std::string&)> show_;
  const std::function<void(JobEvent)> report_;
  std::set<std::string> passed_on_;
  std::vector<std::string> held_back_;
  absl::Time due_ = absl::InfiniteFuture();
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_MESSAGES_H_
