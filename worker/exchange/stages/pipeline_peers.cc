#include "worker/exchange/stages/pipeline_peers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "worker/exchange/stages/local_stage_link.h"

namespace tributary {

PipelinePeers::PipelinePeers(const TransferPlan* plan, Options options)
    : plan_(plan),
      options_(std::move(options)),
      admission_(options_.job),
      links_(
          [this](int64_t to, int64_t epoch, const std::function<bool()>& stop) {
            return Open(to, epoch, stop);
          }) {}

void PipelinePeers::BeginEpoch(int64_t epoch, int64_t first_step,
                               const std::vector<PipelinePeer>& peers) {
  std::map<int64_t, PipelinePeer> by_incarnation;
  std::map<int, int64_t> workers;
  std::map<int64_t, std::string> secrets;
  std::set<int64_t> receivers;
  for (const PipelinePeer& peer : peers) {
    by_incarnation[peer.incarnation] = peer;
    receivers.insert(peer.incarnation);
    if (peer.incarnation != options_.job.incarnation) {
      secrets[peer.incarnation] = peer.secret;
    }
    for (int stage = peer.stage_begin; stage < peer.stage_end; ++stage) {
      workers[stage] = peer.incarnation;
    }
  }
  admission_.SetPeers(epoch, std::move(secrets));
  inbox_.BeginEpoch(epoch, first_step);
  links_.BeginEpoch(epoch, first_step, receivers);
  // Last, so that calls for this epoch find it everywhere.
  absl::MutexLock lock(&mu_);
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  ended_step_ = first_step - 1;
  peers_ = std::move(by_incarnation);
  workers_ = std::move(workers);
}

void PipelinePeers::EndStep(int64_t epoch, int64_t step) {
  {
    absl::MutexLock lock(&mu_);
    if (epoch < epoch_) return;
    ended_step_ = std::max(ended_step_, step);
  }
  inbox_.EndStep(epoch, step);
  links_.EndStep(epoch, step);
}

void PipelinePeers::EndStep(int64_t step) {
  int64_t epoch = 0;
  {
    absl::MutexLock lock(&mu_);
    epoch = epoch_;
  }
  EndStep(epoch, step);
}

void PipelinePeers::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (failed_.ok()) failed_ = status;
  }
  inbox_.Fail(status);
  links_.Fail(status);
}

absl::Status PipelinePeers::Send(int64_t epoch, int stage,
                                 const TransferKey& key,
                                 const TransferScalars& scalars,
                                 absl::Span<const absl::string_view> parts) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t to, WorkerOf(epoch, stage));
  const absl::Status sent = links_.Send(epoch, to, key, scalars, parts);
  return sent.ok() ? sent : AwaitReplacement(epoch, key, sent);
}

absl::StatusOr<ReceivedTransfer> PipelinePeers::Receive(
    int64_t epoch, int stage, const TransferKey& key) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t from, WorkerOf(epoch, stage));
  absl::StatusOr<ReceivedTransfer> received = inbox_.Receive(epoch, from, key);
  // The connection of an older assignment may end in this one, although the
  // worker still is the sender: it connects again.
  while (absl::IsUnavailable(received.status()) &&
         inbox_.AwaitReturn(epoch, from, key, options_.patience)) {
    received = inbox_.Receive(epoch, from, key);
  }
  if (received.ok()) return received;
  if (absl::IsUnavailable(received.status())) {
    absl::MutexLock lock(&mu_);
    TRIBUTARY_RETURN_IF_ERROR(failed_);
    return received;
  }
  return AwaitReplacement(epoch, key, received.status());
}

absl::StatusOr<std::unique_ptr<StageLink>> PipelinePeers::Open(
    int64_t to, int64_t epoch, const std::function<bool()>& stop) {
  if (to == options_.job.incarnation) {
    return std::make_unique<LocalStageLink>(plan_, to, &inbox_);
  }
  PipelinePeer peer;
  {
    absl::MutexLock lock(&mu_);
    const auto found = peers_.find(to);
    if (epoch != epoch_ || found == peers_.end()) {
      return absl::AbortedError(absl::StrCat("assignment ", epoch, " is over"));
    }
    peer = found->second;
  }
  StageHello hello;
  hello.set_job_id(options_.job.id);
  hello.set_signature(options_.job.signature);
  hello.set_plan_signature(options_.job.plan_signature);
  hello.set_attempt(options_.job.attempt);
  hello.set_sender(options_.job.incarnation);
  hello.set_receiver(peer.incarnation);
  hello.set_secret(peer.secret);
  hello.set_epoch(epoch);
  return options_.open(peer, hello, stop);
}

absl::StatusOr<int64_t> PipelinePeers::WorkerOf(int64_t epoch, int stage) {
  absl::MutexLock lock(&mu_);
  const auto begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return epoch <= epoch_ || !failed_.ok();
  };
  Await(&mu_, absl::Condition(&begun));
  TRIBUTARY_RETURN_IF_ERROR(failed_);
  if (epoch < epoch_) {
    return absl::AbortedError(
        absl::StrCat("assignment ", epoch, " is over; the newest is ", epoch_));
  }
  const auto found = workers_.find(stage);
  if (found == workers_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", stage, " has no worker in assignment ", epoch));
  }
  return found->second;
}

absl::Status PipelinePeers::AwaitReplacement(int64_t epoch,
                                             const TransferKey& key,
                                             absl::Status error) {
  if (!absl::IsUnavailable(error) && !absl::IsAborted(error) &&
      !absl::IsCancelled(error)) {
    return error;
  }
  absl::MutexLock lock(&mu_);
  const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return epoch < epoch_ || LastStepOf(key) <= ended_step_ || !failed_.ok();
  };
  const bool replaced =
      AwaitFor(&mu_, absl::Condition(&over), options_.patience);
  TRIBUTARY_RETURN_IF_ERROR(failed_);
  return absl::Status(
      replaced ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable,
      error.message());
}

}  // namespace tributary
