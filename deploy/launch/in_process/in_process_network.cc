#include "deploy/launch/in_process/in_process_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "deploy/launch/in_process/in_process_runner_client.h"
#include "deploy/launch/in_process/in_process_server_network.h"
#include "deploy/launch/in_process/in_process_worker_network.h"

namespace tributary {
namespace {

// How often a wait for a server looks whether it is to stop.
constexpr absl::Duration kInterruptInterval = absl::Milliseconds(50);

template <typename Port>
std::shared_ptr<Port> Find(
    const std::map<std::string, std::shared_ptr<Port>>& ports,
    const std::string& address, const std::shared_ptr<Port>& otherwise) {
  const auto found = ports.find(address);
  return found == ports.end() ? otherwise : found->second;
}

}  // namespace

InProcessNetwork::InProcessNetwork(int threads) : pool_(std::max(2, threads)) {
  no_server_ = std::make_shared<ServerPort>(
      /*shard=*/0, nullptr, nullptr, nullptr, &pool_, nullptr);
  no_server_->ShutDown(absl::ZeroDuration());
  no_stage_ = std::make_shared<LocalStagePort>(&pool_);
  no_stage_->ShutDown();
}

InProcessNetwork::~InProcessNetwork() = default;

std::unique_ptr<ServerNetwork> InProcessNetwork::MakeServerNetwork(
    int shard, Logger* log, std::function<void(bool)> on_ready) {
  return std::make_unique<InProcessServerNetwork>(this, shard, log,
                                                  std::move(on_ready));
}

std::unique_ptr<WorkerNetwork> InProcessNetwork::MakeWorkerNetwork() {
  return std::make_unique<InProcessWorkerNetwork>(this);
}

std::unique_ptr<CoordinatorClient> InProcessNetwork::ConnectRunner() {
  return std::make_unique<InProcessRunnerClient>(this);
}

void InProcessNetwork::Publish(const std::string& address,
                               std::shared_ptr<ServerPort> port) {
  absl::MutexLock lock(&mu_);
  servers_[address] = std::move(port);
}

std::string InProcessNetwork::Publish(std::shared_ptr<LocalStagePort> port) {
  absl::MutexLock lock(&mu_);
  const std::string address = absl::StrCat("stage-", next_stage_++);
  stages_[address] = std::move(port);
  return address;
}

void InProcessNetwork::Withdraw(const std::string& address) {
  absl::MutexLock lock(&mu_);
  servers_.erase(address);
  stages_.erase(address);
}

std::shared_ptr<ServerPort> InProcessNetwork::FindServer(
    const std::string& address) {
  absl::MutexLock lock(&mu_);
  return Find(servers_, address.empty() ? kCoordinator : address, no_server_);
}

std::shared_ptr<LocalStagePort> InProcessNetwork::FindStage(
    const std::string& address) {
  absl::MutexLock lock(&mu_);
  return Find(stages_, address, no_stage_);
}

std::shared_ptr<ServerPort> InProcessNetwork::AwaitServer(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop) {
  const auto found = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return servers_.count(address) > 0;
  };
  while (!stop()) {
    const absl::Time now = MonotonicNow();
    absl::MutexLock lock(&mu_);
    if (AwaitUntil(&mu_, absl::Condition(&found),
                   std::min(deadline, now + kInterruptInterval))) {
      return servers_[address];
    }
    if (now >= deadline) break;
  }
  return nullptr;
}

}  // namespace tributary
