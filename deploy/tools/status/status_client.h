// Asks the coordinator for the status of its job.
#ifndef TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_CLIENT_H_
#define TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_CLIENT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/security.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Queries the coordinator at `address` (host:port) once, blocks until it
// answers, and returns the answer. Returns Unauthenticated or PermissionDenied
// if the coordinator refuses the credentials, FailedPrecondition if TLS
// settings prevent a connection, and Unavailable, with the remedy, if the
// coordinator does not answer within `timeout` for a different reason.
absl::StatusOr<StatusReply> AskStatus(const std::string& address,
                                      const Security& security,
                                      absl::Duration timeout);

// Returns OK if `status` shows that workers may join the job;
// FailedPrecondition, with the reason, if the job is ending, has ended or has
// failed.
absl::Status CheckReady(const StatusReply& status);

// Returns the status of a job as the JSON object that `tributary status --json`
// prints.
nlohmann::ordered_json StatusJson(const StatusReply& status, absl::Time now);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_CLIENT_H_
