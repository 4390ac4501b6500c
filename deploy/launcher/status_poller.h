// Asks the coordinator how the job is doing, without waiting for the answer.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_STATUS_POLLER_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_STATUS_POLLER_H_

#include <memory>
#include <string>

#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Thread-safe.
class StatusPoller {
 public:
  // `address` is the coordinator's host:port, on this machine.
  explicit StatusPoller(const std::string& address,
                        const Security& security = {});
  // Cancels the question that is under way, and waits for its end.
  ~StatusPoller();

  // Asks, unless an earlier question is still open; each is given up after a
  // second. Never waits.
  void Poll();

  // The newest answer; phase PHASE_UNSPECIFIED: none yet.
  StatusReply latest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_STATUS_POLLER_H_
