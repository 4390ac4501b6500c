#include "deploy/flags/exit_code.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace tributary {

int ExitCodeOfStop(int signal) {
  return signal == SIGTERM || signal == SIGUSR1 || signal == SIGUSR2
             ? kExitPreempted
             : ExitCodeOfSignal(signal);
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status)
             ? kExitUsage
             : kExitFailed;
}

int ReportError(const absl::Status& status) {
  return ReportError(status, ExitCodeOf(status));
}

int ReportError(const absl::Status& status, int exit_code) {
  const std::string message =
      status.message().empty()
          ? absl::StatusCodeToString(status.code())
          : absl::StrReplaceAll(status.message(), {{"\n", " "}});
  // A single write keeps the lines of concurrent processes whole.
  const std::string line = absl::StrCat("error: ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return exit_code;
}

int ReportFileError(const absl::Status& status) {
  return ReportError(
      status, absl::IsDataLoss(status) ? kExitUsage : ExitCodeOf(status));
}

void EndProcess(int exit_code) {
  std::fflush(nullptr);
#ifdef __SANITIZE_ADDRESS__
  __lsan_do_leak_check();  // An exit handler runs this check otherwise.
#endif
  _exit(exit_code);
}

}  // namespace tributary
