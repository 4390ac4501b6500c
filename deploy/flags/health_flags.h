// Flags of servers and workers for a cluster's scheduler, such as Kubernetes,
// that checks the health of processes and restarts them.
#ifndef TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_
#define TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/logger.h"
#include "common/transport/health_endpoint.h"
#include "deploy/flags/command_line.h"

namespace tributary {

// Declares --health-listen, the address (host:port) on which the process
// answers gRPC health checks. `ready` completes the sentence "Service
// 'tributary.ready' is SERVING ..." in the text of --help.
void AddHealthListenFlag(CommandLine* line, const std::string& ready,
                         std::string* address);

// Declares --await-resume: if server 0 stops the job with a checkpoint, the
// process waits until server 0 is restarted, and does not exit.
void AddAwaitResumeFlag(CommandLine* line, bool* await_resume);

// Starts an endpoint for gRPC health checks on `address`, and sets `*on_ready`
// to a function that tells the endpoint whether the process is ready. Returns
// null, and leaves `*on_ready` unchanged, if `address` is empty. `*on_ready`
// must not be called after the endpoint is destroyed. `log` must outlive the
// endpoint. Returns the errors of HealthEndpoint::Start, and InvalidArgument
// for a malformed address.
absl::StatusOr<std::unique_ptr<HealthEndpoint>> StartHealthEndpoint(
    const std::string& address, Logger* log,
    std::function<void(bool)>* on_ready);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_HEALTH_FLAGS_H_
