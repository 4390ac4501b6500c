// The address of a run's coordinator, which server 0 keeps in the run's folder.
#ifndef TRIBUTARY_DEPLOY_TOOLS_STATUS_RUN_ADDRESS_H_
#define TRIBUTARY_DEPLOY_TOOLS_STATUS_RUN_ADDRESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/os/untrusted_folder.h"
#include "common/transport/security.h"

namespace tributary {

// Which coordinators a process may connect to because the file server.json of a
// run names them. Everybody who can write into the run's folder can change this
// file, so the file alone is no reason to send the job's token to an address.
struct RunAddressRules {
  // The credentials that the process would use.
  Security security = {};
  // Addresses (host:port) that the user has named. They are allowed on every
  // machine.
  std::vector<std::string> named = {};
  // Users whose processes may receive the credentials: this process's user, and
  // root, who can read them anyway.
  std::set<uid_t> trusted = {geteuid(), 0};
};

// Returns the numeric address (host:port) of the coordinator of the run in
// `folder`, if this process may connect to it now: the user has named the
// address, or it is an address of this machine at which a process listens. If
// the process has credentials, all users who listen there must be trusted. Does
// not connect, and resolves no name except that of this machine.
//
// Returns NotFound if the folder has no server.json: the job does not run, or
// server 0 does not share the folder. Returns Unavailable if nobody listens at
// the address, which is so if server 0 was killed, and FailedPrecondition, with
// the remedy, if this process may not connect to the address.
absl::StatusOr<std::string> AddressOfRun(const UntrustedFolder& folder,
                                         const RunAddressRules& rules);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_STATUS_RUN_ADDRESS_H_
