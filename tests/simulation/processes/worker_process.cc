#include "tests/simulation/processes/worker_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/retry.h"

namespace tributary::simulation {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
constexpr absl::Duration kReconnectTimeout = absl::Minutes(10);

}  // namespace

void WorkerProcess::OnStart() {
  was_in_ = false;
  wait_ = absl::ZeroDuration();
  patience_ends_ = world_->loop.now() + kConnectTimeout;
  world_->loop.After(world_->network.Latency(), life(), "begin",
                     [this] { BeginStay(); });
}

void WorkerProcess::OnCrash() {
  stay_.reset();
  scope_.reset();
}

void WorkerProcess::BeginStay() {
  stay_began_ = world_->loop.now();
  scope_ = MakeScope("stay");
  WorkerStay::Options options;
  options.rank = rank_;
  options.micro_batch = micro_batch_;
  options.connect_timeout = was_in_ ? kReconnectTimeout : kConnectTimeout;
  stay_ = std::make_unique<WorkerStay>(
      world_, scope_, options, [this](const absl::Status& status) {
        // Deferred, because the stay's handler must return first.
        world_->loop.After(absl::Microseconds(10), scope_, "stay over",
                           [this, status] { OnOver(status); });
      });
}

void WorkerProcess::OnOver(const absl::Status& status) {
  was_in_ = was_in_ || stay_->admitted();
  const bool stopped = stay_->stopped();
  const std::shared_ptr<Life> scope = scope_;
  EndScope(scope, absl::Milliseconds(20));
  stay_.reset();
  if (status.ok() || stopped || !IsTransient(status) ||
      (!was_in_ && world_->loop.now() > patience_ends_)) {
    // An operator who gave two workers the same rank corrects that.
    if (absl::StrContains(status.message(), "was taken over")) rank_ = -1;
    Exit(status);
    return;
  }
  if (world_->loop.now() - stay_began_ > absl::Seconds(10)) {
    wait_ = absl::ZeroDuration();
  }
  world_->loop.After(wait_, life(), "join again", [this] { BeginStay(); });
  wait_ =
      std::min(absl::Seconds(1), std::max(absl::Milliseconds(50), 2 * wait_));
}

std::string WorkerProcess::State() const {
  if (!running()) return "not running";
  return stay_ == nullptr ? "between stays" : stay_->State();
}

}  // namespace tributary::simulation
