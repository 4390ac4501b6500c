#include "deploy/flags/health_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/flags/environment.h"

namespace tributary {

void AddHealthListenFlag(CommandLine* line, const std::string& ready,
                         std::string* address) {
  line->AddText(
      "health-listen", "HOST:PORT",
      absl::StrCat("Answer health checks (grpc.health.v1) here, in plaintext "
                   "and without the token, and serve nothing else. Service "
                   "'tributary.ready' is SERVING ",
                   ready, ", service '' always. Default: off."),
      address);
}

void AddAwaitResumeFlag(CommandLine* line, bool* await_resume) {
  line->AddSwitch(
      "await-resume",
      "If server 0 stops the job with a checkpoint, wait up to 10 minutes for "
      "it to be restarted, instead of ending with exit code 75.",
      await_resume);
}

absl::StatusOr<std::unique_ptr<HealthEndpoint>> StartHealthEndpoint(
    const std::string& address, Logger* log,
    std::function<void(bool)>* on_ready) {
  if (address.empty()) return nullptr;
  TRIBUTARY_RETURN_IF_ERROR(ParseHostPort(address).status());
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<HealthEndpoint> endpoint,
                             HealthEndpoint::Start(address, log));
  *on_ready = [to = endpoint.get()](bool ready) { to->SetReady(ready); };
  return endpoint;
}

}  // namespace tributary
