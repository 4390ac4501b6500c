// Creates the run mode of a job.
#ifndef TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_FACTORY_H_
#define TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_FACTORY_H_

#include <memory>

#include "proto/job.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

// Creates the run mode for the job's kind of exchange. `job` must be a valid
// result of ResolveJob. All arguments must outlive the mode.
std::unique_ptr<RunMode> CreateRunMode(const JobSpec& job,
                                       Membership* membership,
                                       ServerRoster* servers);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_FACTORY_H_
