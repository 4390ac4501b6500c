#include "tests/integration/network_cluster.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/certificates.h"
#include "tests/support/command_runner.h"
#include "tests/support/network/reserved_port.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

constexpr char kProgram[] = "tests/faults/tributary_with_failpoints";

int64_t Attempts(const std::string& folder) {
  std::ifstream file(folder + "/run/attempt");
  int64_t attempts = 0;
  file >> attempts;
  return attempts;
}

}  // namespace

std::vector<TcpProxy*> ProxyNetwork::all() {
  std::vector<TcpProxy*> proxies = {&to_server_1_};
  for (const char* const name : {"server-1", "worker-0", "worker-1"}) {
    proxies.push_back(ToCoordinator(name));
  }
  return proxies;
}

JobSpec NetworkJob(const std::string& folder, int64_t steps) {
  JobSpec job = TinyJob("mlp", folder);
  job.set_steps(steps);
  job.clear_epochs();
  job.mutable_evaluation()->set_every_steps(20);
  job.mutable_checkpoint()->set_every_steps(10);
  job.mutable_output()->set_log_every_steps(1);
  job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  job.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  return job;
}

NetworkResult RunOnNetwork(const JobSpec& job,
                           const std::vector<NetworkEvent>& events,
                           absl::Duration timeout, bool tls) {
  const absl::Time begin = absl::Now();
  const ReservedPort server_1;
  ProxyNetwork network;
  network.ToServer1()->SetServer(server_1.address());
  ProcessCluster::Options options;
  options.program = kProgram;
  options.folder = MakeTestFolder();
  options.job = options.folder + "/job.textproto";
  options.timeout = timeout;
  std::ofstream(options.job) << PrintJob(job);
  options.arguments["server-1"] = {"--listen", server_1.address(),
                                   "--advertise",
                                   network.ToServer1()->address()};
  // An undetected change of a byte may lose what a step waits for.
  options.arguments["server-0"] = {"--stall-timeout", "15"};
  options.route = [&network](const std::string& name,
                             const std::string& address) {
    TcpProxy* const proxy = network.ToCoordinator(name);
    proxy->SetServer(address);
    return proxy->address();
  };
  if (tls) {
    const std::string folder = MakeTestFolder();
    WriteTlsDirectory(folder);
    for (const char* const name :
         {"server-0", "server-1", "worker-0", "worker-1"}) {
      std::vector<std::string>& arguments = options.arguments[name];
      arguments.insert(arguments.end(), {"--tls-dir", folder});
    }
  }
  ProcessCluster cluster(options);
  NetworkResult result;
  absl::Time last = begin;
  result.status = cluster.Run([&](ProcessCluster* running) {
    if (result.events == events.size()) return;
    const NetworkEvent& next = events[result.events];
    if (absl::Now() - last < next.after || running->step() < next.step) return;
    next.action(&network);
    last = absl::Now();
    ++result.events;
  });
  if (result.status.ok()) {
    result.status = cluster.CheckLedger(job.steps());
  } else {
    result.status = absl::Status(
        result.status.code(),
        absl::StrCat(result.status.message(), " (see ", options.folder, ")"));
  }
  result.weights_sha256 = cluster.weights_sha256();
  for (const TcpProxy* const proxy : network.all()) {
    result.faults += proxy->statistics().faults;
  }
  result.restarts = cluster.restarts();
  result.killed = cluster.killed();
  result.attempts = Attempts(options.folder);
  result.time = absl::Now() - begin;
  return result;
}

std::string UndisturbedDigest(const JobSpec& job) {
  ProcessCluster::Options options;
  options.program = kProgram;
  options.folder = MakeTestFolder();
  options.job = options.folder + "/job.textproto";
  std::ofstream(options.job) << PrintJob(job);
  ProcessCluster cluster(options);
  const absl::Status status = cluster.Run();
  return status.ok() ? cluster.weights_sha256() : status.ToString();
}

}  // namespace tributary
