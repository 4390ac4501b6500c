#include "deploy/launch/job/job_members.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/logger.h"

namespace tributary {

absl::Status JobMembers::Start(Role role, int number) {
  ProcessSpec spec = describe_(role, number, address_);
  spec.role = role;
  spec.number = number;
  // A process that is restarted continues the log.
  spec.append |= latest_.count({role, number}) > 0;
  TRIBUTARY_ASSIGN_OR_RETURN(const int process, processes_.Start(spec));
  latest_[{role, number}] = process;
  return absl::OkStatus();
}

absl::optional<absl::Status> JobMembers::Restart(const ProcessExit& exit) {
  const ProcessSpec ended = spec(exit.process);
  restarts_.OnFailure(ended.name, exit.wait_status);
  if (!restarts_.Restart(ended.name)) return absl::nullopt;
  messages_.Warn(ended, "process_restarted",
                 absl::StrCat(ended.name, " ", Describe(exit),
                              "; restarting it (restart ", restarts_.restarts(),
                              " of ", restarts_.most_restarts(), ")"));
  return Start(ended.role, ended.number);
}

absl::Status JobMembers::StartEnded() {
  const std::map<std::pair<Role, int>, int> latest = latest_;
  for (const auto& [place, process] : latest) {
    if (processes_.running(process)) continue;
    TRIBUTARY_RETURN_IF_ERROR(Start(place.first, place.second));
  }
  return absl::OkStatus();
}

std::vector<ProcessExit> JobMembers::Reap() {
  // A worker that loses its server ends soon after it. Checking the servers
  // last finds the server's exit, too.
  std::vector<ProcessExit> exits = processes_.Reap();
  const std::vector<ProcessExit> later = processes_.Reap();
  exits.insert(exits.end(), later.begin(), later.end());
  std::stable_partition(exits.begin(), exits.end(),
                        [this](const ProcessExit& exit) {
                          return spec(exit.process).role == Role::kServer;
                        });
  return exits;
}

bool JobMembers::PassWarnings(bool shows) {
  bool stopping = false;
  for (int process = 0; process < processes_.size(); ++process) {
    for (const std::string& line : processes_.TakeWarnings(process)) {
      if (line == kStepNotice) {
        restarts_.OnStepNotice(spec(process).name);
      } else if (line == kStoppingNotice) {
        stopping = true;
      } else if (shows) {
        messages_.PassOn(spec(process), line);
      }
    }
  }
  return stopping;
}

std::string JobMembers::Describe(const ProcessExit& exit) const {
  const ProcessSpec& ended = spec(exit.process);
  const std::string text =
      exit.Describe(ended.log_path, processes_.state(exit.process).log_begin);
  if (!restarts_.FailsAtStart(ended.name)) return text;
  return absl::StrCat(text, ", ", RestartPolicy::kMostFailuresAtStart,
                      " times in a row before it completed a step");
}

void JobMembers::Terminate(int process) {
  processes_.Signal(process, SIGTERM);
  processes_.Signal(process, SIGCONT);
}

void JobMembers::TerminateAll() {
  for (int process = 0; process < processes_.size(); ++process) {
    Terminate(process);
  }
}

int JobMembers::Running(Role role) const {
  int count = 0;
  for (int process = 0; process < processes_.size(); ++process) {
    if (processes_.running(process) && spec(process).role == role) ++count;
  }
  return count;
}

std::vector<pid_t> JobMembers::pids() const {
  std::vector<pid_t> pids;
  for (const auto& [place, process] : latest_) {
    pids.push_back(processes_.pid(process));
  }
  return pids;
}

}  // namespace tributary
