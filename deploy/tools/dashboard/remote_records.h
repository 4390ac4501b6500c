// Fetches the records of a run from its coordinator.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_REMOTE_RECORDS_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_REMOTE_RECORDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/untrusted_folder.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Keeps a copy of the records of a run (metrics, events and job), and fetches
// new records from the coordinator on a thread of its own. Thread-safe. No
// method waits for the network.
class RemoteRecords {
 public:
  // `address` is the coordinator's host:port.
  RemoteRecords(const std::string& address, const Security& security);
  // Cancels the call in flight and blocks until it has ended.
  ~RemoteRecords();

  // Starts to fetch all new records of the run, and returns without waiting for
  // them. A call to the coordinator times out after ten seconds.
  void Poll();

  // These methods return the results of RecordsCopy's methods of the same
  // names, for the records that were copied so far. The lines
  // may change at any time, so a line that was read before may be replaced by a
  // different line.
  absl::StatusOr<InputFile> OpenLines() const;
  std::vector<JobEvent> events() const;
  std::string job() const;
  // Returns the result of the newest call to the coordinator. Unavailable and
  // DeadlineExceeded mean that the coordinator does not answer.
  absl::Status status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_REMOTE_RECORDS_H_
