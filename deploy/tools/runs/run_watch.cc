#include "deploy/tools/runs/run_watch.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "deploy/launch/job/run_token.h"

namespace tributary {
namespace {

// A coordinator that has not answered for so long counts as gone.
constexpr absl::Duration kGone = absl::Seconds(5);
constexpr int64_t kMaxRunIdBytes = 64;

}  // namespace

bool IsLive(const StatusPoller* poller) {
  return poller != nullptr && absl::Now() - poller->latest_time() < kGone;
}

void RunWatch::Update() {
  record_.Update();
  // The address is checked before each query, because another process may have
  // taken the port.
  RunAddressRules rules = *rules_;
  rules.security = CredentialsOfRun(record_.folder(), rules_->security);
  const absl::StatusOr<std::string> address =
      AddressOfRun(record_.folder(), rules);
  problem_ = absl::IsFailedPrecondition(address.status())
                 ? std::string(address.status().message())
                 : "";
  // If a server that was asked is gone, its last status remains for a while.
  if (absl::IsUnavailable(address.status())) return;
  if (address.value_or("") != coordinator_ || rules.security.token != token_) {
    coordinator_ = address.value_or("");
    token_ = rules.security.token;
    poller_ = coordinator_.empty() ? nullptr
                                   : std::make_unique<StatusPoller>(
                                         coordinator_, rules.security);
  }
  if (poller_ == nullptr) return;
  run_id_ = record_.folder().Read("run-id", kMaxRunIdBytes).value_or("");
  poller_->Poll();
}

bool RunWatch::live() const {
  if (!IsLive(poller_.get())) return false;
  // Another job may have the address that a killed server 0 has left behind.
  const std::string answered = poller_->latest().run_id();
  return run_id_.empty() || answered.empty() || answered == run_id_;
}

}  // namespace tributary
