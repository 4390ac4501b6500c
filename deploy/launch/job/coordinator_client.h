// What the runner of a job asks of the job's coordinator, and tells it.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_COORDINATOR_CLIENT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_COORDINATOR_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// No method blocks, except the destructor, which drops the events that wait.
// Not thread-safe.
class CoordinatorClient {
 public:
  // Returns the client of the coordinator at `address` (host:port).
  static std::unique_ptr<CoordinatorClient> Connect(const std::string& address,
                                                    const Security& security);
  virtual ~CoordinatorClient() = default;

  // See StatusPoller.
  virtual void Poll() = 0;
  virtual StatusReply latest() const = 0;
  virtual absl::Time latest_asked() const = 0;
  // Reports an event of the job, such as the restart of a process; see
  // EventReport.event. Events are sent in order. While the coordinator does not
  // answer, an event is sent again and again: it may be about the coordinator
  // itself. If kMaxWaiting events wait, drops the event.
  static constexpr size_t kMaxWaiting = 256;
  virtual void Report(JobEvent event) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_COORDINATOR_CLIENT_H_
