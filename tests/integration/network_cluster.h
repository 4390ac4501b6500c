// Runs a job of two servers and two workers, as processes, on a faulty network.
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
#include "tests/support/network/tcp_proxy.h"

namespace tributary {

// The connections between the processes. Workers do not connect to each other,
// and server 0 does not connect to workers.
class ProxyNetwork {
 public:
  // Connections from "server-1", "worker-0" or "worker-1" to server 0. They
  // carry the orders of the coordinator and, for a worker, its exchange with
  // server 0.
  TcpProxy* ToCoordinator(const std::string& name) {
    return &to_coordinator_[name];
  }
  // Connections from all processes to server 1.
  TcpProxy* ToServer1() { return &to_server_1_; }
  std::vector<TcpProxy*> all();

 private:
  std::map<std::string, TcpProxy> to_coordinator_;
  TcpProxy to_server_1_;
};

// A change of the network. Events happen in order.
struct NetworkEvent {
  // The event happens once the job has completed `step` steps and at least
  // `after` has passed since the previous event.
  int64_t step = 0;
  absl::Duration after;
  std::function<void(ProxyNetwork*)> action;
};

struct NetworkResult {
  // The first error of ProcessCluster::Run or CheckLedger, or OK.
  absl::Status status;
  std::string weights_sha256;
  size_t events = 0;  // Number of events that happened.
  int faults = 0;     // Number of cuts, resets and flips.
  int restarts = 0;
  int killed = 0;  // Number of processes ended by a signal.
  int64_t attempts = 0;
  absl::Duration time;
};

// Returns the job of an mlp that trains for `steps` steps and communicates only
// over TCP. Writes its data to `folder`.
JobSpec NetworkJob(const std::string& folder, int64_t steps);

// Runs the job in a new folder, with certificates if `tls` is true.
NetworkResult RunOnNetwork(const JobSpec& job,
                           const std::vector<NetworkEvent>& events,
                           absl::Duration timeout = absl::Seconds(60),
                           bool tls = false);

// Returns the digest of the final weights of `job` on a network without faults.
std::string UndisturbedDigest(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_NETWORK_CLUSTER_H_
