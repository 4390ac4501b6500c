// Fetches the records of a run from its coordinator.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_REMOTE_RECORDS_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_REMOTE_RECORDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Keeps a copy of the records, on a thread of its own. Thread-safe. No method
// waits for the network.
class RemoteRecords {
 public:
  // `address` is the coordinator's host:port.
  RemoteRecords(const std::string& address, const Security& security);
  // Cancels the call in flight and blocks until it has ended.
  ~RemoteRecords();

  // Starts to fetch all new records. A call to the coordinator times out after
  // ten seconds.
  void Poll();

  // See RecordsCopy. The lines change at any time: a program that has read a
  // line may find a different one in its place.
  const std::string& path() const;
  std::vector<JobEvent> events() const;
  std::string job() const;
  // Returns the error of the newest call, if it has failed. Unavailable and
  // DeadlineExceeded mean that the coordinator does not answer.
  absl::Status status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_REMOTE_RECORDS_H_
