#include "deploy/flags/process_log.h"

#include <string.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/flags/exit_code.h"

namespace tributary {

void AddLogFlags(CommandLine* line, LogFlags* flags) {
  line->AddChoice("log-format", {"text", "json"},
                  "Format of log lines. Default text.", &flags->format);
  line->AddChoice("log-level", {"debug", "info", "warning", "error"},
                  "Lowest level that is logged. Default info.", &flags->level);
}

void AddChildLogFlags(CommandLine* line, LogFlags* flags) {
  AddLogFlags(line, flags);
  line->AddHiddenInteger("warning-fd", 0, 1 << 20, &flags->warning_fd);
  line->AddHiddenInteger("parent-signals", 0, 1, &flags->parent_signals);
}

absl::StatusOr<std::unique_ptr<Logger>> StartProcessLog(const LogFlags& flags,
                                                        const std::string& role,
                                                        int rank) {
  LogOptions options;
  TRIBUTARY_ASSIGN_OR_RETURN(options.level, ParseLogLevel(flags.level));
  options.json = flags.format == "json";
  options.role = role;
  options.rank = rank;
  options.warning_fd = static_cast<int>(flags.warning_fd);
  return Logger::Create(options);
}

int FinishProcess(Logger* log, const absl::Status& status, int signal) {
  log->Flush();  // ReportError writes to stderr without the log.
  if (status.ok()) {
    log->Info("done");
    return kExitDone;
  }
  if (absl::IsCancelled(status)) {
    log->Info(
        "%s%s", std::string(status.message()),
        signal == 0 ? "" : absl::StrCat(" (SIG", sigabbrev_np(signal), ")"));
    return signal == 0 ? kExitPreempted : ExitCodeOfStop(signal);
  }
  return ReportError(status);
}

}  // namespace tributary
