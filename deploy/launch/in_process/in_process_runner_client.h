// How the runner of a job asks a coordinator in the same process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_RUNNER_CLIENT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_RUNNER_CLIENT_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/coordinator_client.h"

namespace tributary {

class InProcessRunnerClient final : public CoordinatorClient {
 public:
  // `network` must outlive this object.
  explicit InProcessRunnerClient(InProcessNetwork* network)
      : network_(network) {}

  void Poll() override;
  StatusReply latest() const override { return latest_; }
  absl::Time latest_asked() const override { return latest_asked_; }
  void Report(JobEvent event) override;

 private:
  // Sends the reports that wait, as long as the coordinator takes them.
  void SendWaiting();

  InProcessNetwork* const network_;
  StatusReply latest_;
  absl::Time latest_asked_ = absl::InfinitePast();
  uint64_t next_id_ = 1;
  std::deque<EventReport> waiting_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_RUNNER_CLIENT_H_
