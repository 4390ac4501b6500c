// Queries the job's status from the coordinator asynchronously.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_STATUS_POLLER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_STATUS_POLLER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Keeps the latest status that the coordinator has reported. Thread-safe.
class StatusPoller {
 public:
  // `address` is the coordinator's host:port.
  explicit StatusPoller(const std::string& address,
                        const Security& security = {});
  // Cancels the query in flight, and blocks until it has ended, for at most a
  // second.
  ~StatusPoller();

  // Starts a query unless one is in flight. A query times out after one second.
  // Never blocks.
  void Poll();

  // Blocks until no query is in flight, but not beyond `deadline`.
  void AwaitAnswer(absl::Time deadline) const;

  // Returns the latest status. Its phase is PHASE_UNSPECIFIED if none has been
  // received yet.
  StatusReply latest() const;
  // Returns when latest() was received; InfinitePast if nothing was.
  absl::Time latest_time() const;
  // Returns when latest() was asked for; InfinitePast if nothing was received.
  absl::Time latest_asked() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_STATUS_POLLER_H_
