// A job of two servers and two workers, as processes, on a bad network.
#ifndef TRIBUTARY_TESTS_INTEGRATION_NETWORK_CLUSTER_H_
#define TRIBUTARY_TESTS_INTEGRATION_NETWORK_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "tests/support/tcp_proxy.h"

namespace tributary {

// The ways between the processes. There is none between workers, and none from
// server 0 to a worker.
class Network {
 public:
  // From "server-1", "worker-0" or "worker-1" to server 0: its orders, and a
  // worker's part of the exchange.
  TcpProxy* ToCoordinator(const std::string& name) {
    return &to_coordinator_[name];
  }
  // From everybody to server 1.
  TcpProxy* ToServer1() { return &to_server_1_; }
  std::vector<TcpProxy*> all();

 private:
  std::map<std::string, TcpProxy> to_coordinator_;
  TcpProxy to_server_1_;
};

// What happens to the network, in order.
struct NetworkEvent {
  // Not before the job has done so many steps,
  int64_t step = 0;
  // nor sooner after the event before than this.
  absl::Duration after;
  std::function<void(Network*)> action;
};

struct NetworkResult {
  absl::Status status;  // Of the run, and of its ledger.
  std::string weights_sha256;
  size_t events = 0;  // That have happened.
  int faults = 0;     // Cuts, resets and flips.
  int restarts = 0;
  int killed = 0;  // Ended by a signal.
  int64_t attempts = 0;
  absl::Duration time;
};

// An mlp that trains for so many steps and uses nothing but TCP. Its data are
// in `folder`.
JobSpec NetworkJob(const std::string& folder, int64_t steps);

// Runs the job in a new folder; `tls`: with certificates.
NetworkResult RunOnNetwork(const JobSpec& job,
                           const std::vector<NetworkEvent>& events,
                           absl::Duration timeout = absl::Seconds(60),
                           bool tls = false);

// The digest of the same job on a good network.
std::string UndisturbedDigest(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_NETWORK_CLUSTER_H_
