// The flags of servers and workers that a cluster's scheduler watches and
// restarts.
#ifndef TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_
#define TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/log.h"
#include "common/transport/health_endpoint.h"
#include "deploy/flags/command_line.h"

namespace tributary {

// Declares --health-listen. `ready` completes the sentence "The service
// 'tributary.ready' is SERVING ...".
void AddHealthListenFlag(CommandLine* line, const std::string& ready,
                         std::string* address);

// Declares --await-resume.
void AddAwaitResumeFlag(CommandLine* line, bool* await_resume);

// Starts an endpoint on `address`, and sets `*on_ready` to a function that
// tells the endpoint whether the process is ready. Returns null, and leaves
// `*on_ready` unchanged, if `address` is empty. The endpoint must outlive the
// calls of the function, and `log` the endpoint. Returns the errors of
// HealthEndpoint::Start, and InvalidArgument for a malformed address.
absl::StatusOr<std::unique_ptr<HealthEndpoint>> StartHealthEndpoint(
    const std::string& address, Logger* log,
    std::function<void(bool)>* on_ready);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_
