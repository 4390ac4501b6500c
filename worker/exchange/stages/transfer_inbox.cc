#include "worker/exchange/stages/transfer_inbox.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<ReceivedTransfer> TransferInbox::Receive(
    int64_t epoch, int64_t from, const TransferKey& key) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Find(epoch, from, key) != nullptr || !Refusal(epoch, from, key).ok();
  };
  Await(&mu_, absl::Condition(&decided));
  if (Find(epoch, from, key) == nullptr) return Refusal(epoch, from, key);
  auto taken = held_.extract({from, key});
  taken_.insert(key);
  DropUseless(&garbage);
  return std::move(taken.mapped().transfer);
}

bool TransferInbox::AwaitReturn(int64_t epoch, int64_t from,
                                const TransferKey& key,
                                absl::Duration timeout) const {
  absl::MutexLock lock(&mu_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failed_.ok() || !absl::IsUnavailable(Refusal(epoch, from, key));
  };
  return AwaitFor(&mu_, absl::Condition(&decided), timeout) && failed_.ok();
}

absl::StatusOr<TransferScalars> TransferInbox::ReceiveInto(
    int64_t epoch, int64_t from, const TransferKey& key,
    absl::Span<const absl::Span<char>> parts) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ReceivedTransfer received,
                             Receive(epoch, from, key));
  TRIBUTARY_RETURN_IF_ERROR(Scatter(received, parts));
  return received.scalars;
}

bool TransferInbox::ReadyForTest(int64_t epoch, int64_t from,
                                 const TransferKey& key) const {
  absl::MutexLock lock(&mu_);
  return Find(epoch, from, key) != nullptr || !Refusal(epoch, from, key).ok();
}

void TransferInbox::BeginEpoch(int64_t epoch, int64_t first_step) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  ended_step_ = first_step - 1;
  taken_.clear();
  DropUseless(&garbage);
  for (auto it = connections_.begin(); it != connections_.end();) {
    it = it->second.ended ? connections_.erase(it) : std::next(it);
  }
}

void TransferInbox::EndStep(int64_t epoch, int64_t step) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  if (epoch < epoch_ || step <= ended_step_) return;
  ended_step_ = step;
  DropUseless(&garbage);
  // Ordered by steps.
  for (auto it = taken_.begin(); it != taken_.end() && it->step <= step;) {
    it = LastStepOf(*it) <= step ? taken_.erase(it) : std::next(it);
  }
}

void TransferInbox::Fail(const absl::Status& status) {
  Garbage garbage;
  absl::MutexLock lock(&mu_);
  if (!failed_.ok()) return;
  failed_ = status;
  DropUseless(&garbage);
}

int64_t TransferInbox::epoch() const {
  absl::MutexLock lock(&mu_);
  return epoch_;
}

int TransferInbox::held() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(held_.size());
}

int64_t TransferInbox::Connect(int64_t from) {
  absl::MutexLock lock(&mu_);
  connections_[from] = {++next_connection_, /*ended=*/false, absl::OkStatus()};
  return next_connection_;
}

void TransferInbox::Disconnect(int64_t from, int64_t connection,
                               const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  const auto found = connections_.find(from);
  if (found == connections_.end() || found->second.number != connection) return;
  found->second.ended = true;
  found->second.status = status;
}

void TransferInbox::Deliver(int64_t from, int64_t epoch, const TransferKey& key,
                            ReceivedTransfer transfer) {
  // Destroyed after the lock is released.
  Held added{epoch, std::move(transfer)};
  absl::MutexLock lock(&mu_);
  if (Useless(epoch, key)) return;
  Held& held = held_[{from, key}];
  if (held.epoch < epoch || held.transfer.owner == nullptr) {
    std::swap(held, added);
  }
}

const TransferInbox::Held* TransferInbox::Find(int64_t epoch, int64_t from,
                                               const TransferKey& key) const {
  if (epoch != epoch_ || !failed_.ok()) return nullptr;
  const auto found = held_.find({from, key});
  if (found == held_.end() || found->second.epoch != epoch) return nullptr;
  return &found->second;
}

absl::Status TransferInbox::Refusal(int64_t epoch, int64_t from,
                                    const TransferKey& key) const {
  if (!failed_.ok()) return failed_;
  const absl::Status needed = CheckIsNeeded(key, epoch, epoch_, ended_step_);
  if (!needed.ok()) return needed;
  if (epoch > epoch_) return absl::OkStatus();
  if (taken_.count(key) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(DescribeTransfer(key), " was received before"));
  }
  const auto connection = connections_.find(from);
  if (connection != connections_.end() && connection->second.ended) {
    const absl::Status& status = connection->second.status;
    return absl::UnavailableError(absl::StrCat(
        "lost worker ", from, ", the sender of ", DescribeTransfer(key), ": ",
        status.ok() ? "it ended the connection" : status.message()));
  }
  return absl::OkStatus();
}

bool TransferInbox::Useless(int64_t epoch, const TransferKey& key) const {
  if (!failed_.ok() || epoch < epoch_) return true;
  // The steps of a newer epoch are not known yet.
  return epoch == epoch_ &&
         (LastStepOf(key) <= ended_step_ || taken_.count(key) > 0);
}

void TransferInbox::DropUseless(Garbage* garbage) {
  for (auto it = held_.begin(); it != held_.end();) {
    if (Useless(it->second.epoch, it->first.second)) {
      garbage->push_back(std::move(it->second.transfer));
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace tributary
