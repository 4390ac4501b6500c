#include "common/update/chunk_updater.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Returns an unspecified time if no step is traced.
absl::Time TimeFor(const UpdateTrace* trace) {
  return trace == nullptr ? absl::Time() : MonotonicNow();
}

}  // namespace

ChunkUpdater::ChunkUpdater(const Settings* settings, int number, int place,
                           int64_t elements,
                           std::unique_ptr<ContributionQueue> queue,
                           std::unique_ptr<ChunkPass> pass)
    : settings_(*settings),
      number_(number),
      place_(place),
      elements_(elements),
      pass_(std::move(pass)),
      weights_(&settings->exchange, elements, settings->buffers,
               settings->halves),
      queue_(std::move(queue)),
      subscribers_(number, &weights_) {
  weights_.SetFetch([this](int64_t version, float* to) {
    absl::Status fetched = pass_->Fetch(version, to);
    if (!fetched.ok()) settings_.on_failure(number_, fetched);
    return fetched;
  });
}

ChunkUpdater::State ChunkUpdater::state() const {
  absl::MutexLock lock(&mu_);
  return state_;
}

int64_t ChunkUpdater::version() const {
  absl::MutexLock lock(&mu_);
  return weights_.version();
}

void ChunkUpdater::Initialize(int64_t version, Buffer values,
                              std::vector<Buffer> slots) {
  absl::MutexLock lock(&mu_);
  if (weights_.version() >= 0) return;
  absl::Status status;
  if (!slots.empty()) status = pass_->Restore(std::move(slots));
  if (settings_.shares_device) {
    status.Update(pass_->Place(version, values.get()));
  }
  if (!status.ok()) {
    settings_.on_failure(number_, status);
    // A restored chunk still has its version, which snapshots ask for.
    if (version == 0) return;
  }
  weights_.Initialize(version, std::move(values));
  subscribers_.Publish(/*more=*/false);
}

absl::StatusOr<bool> ChunkUpdater::Contribute(NodeSum sum) {
  const absl::Time begin = TimeFor(settings_.trace);
  const int64_t step = sum.step;
  const int node = sum.node;
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(settings_.revoked->Check(sum.contributor));
  const absl::Status status = queue_->Add(weights_.version(), std::move(sum));
  if (!status.ok()) {
    return absl::Status(
        status.code(), absl::StrCat("chunk ", number_, ": ", status.message()));
  }
  if (settings_.trace != nullptr) {
    if (settings_.trace->Wants(step)) traced_.Add(step, node);
    settings_.trace->Contributed(step, number_, begin);
  }
  return TakeUpdate();
}

bool ChunkUpdater::TakeUpdate() {
  while (state_ == State::kCollecting) {
    ContributionQueue::Decision decision = queue_->Next(weights_.version());
    if (std::holds_alternative<ChunkUpdate>(decision)) {
      update_ = std::get<ChunkUpdate>(std::move(decision));
      if (settings_.rates != nullptr) {
        update_.learning_rate = settings_.rates->Of(update_.step);
      }
      state_ = settings_.awaits_norm ? State::kSumming : State::kUpdating;
      return true;
    }
    if (!std::holds_alternative<ContributionOutcome>(decision)) break;
    subscribers_.Answer(std::get<ContributionOutcome>(decision));
  }
  return false;
}

void ChunkUpdater::SumDone(absl::Time begin, absl::Time end) {
  if (settings_.trace != nullptr) {
    settings_.trace->Summed(update_.step, number_, begin, end);
  }
  absl::MutexLock lock(&mu_);
  state_ = State::kAwaitingNorm;
}

ChunkPass::TensorArguments ChunkUpdater::TensorArguments() {
  absl::MutexLock lock(&mu_);
  ChunkPass::TensorArguments arguments;
  arguments.sum = &update_.sum;
  // Trust ratios depend neither on the norm nor on the learning rate.
  arguments.step =
      settings_.recipe->At(weights_.version(), update_.sum.sample_count(),
                           /*norm=*/0, update_.learning_rate);
  arguments.weights = weights_.Newest();
  return arguments;
}

bool ChunkUpdater::NormKnown(
    int64_t step, std::shared_ptr<const std::vector<float>> trust_ratios) {
  absl::MutexLock lock(&mu_);
  if (state_ != State::kAwaitingNorm || weights_.version() != step) {
    return false;
  }
  state_ = State::kUpdating;
  run_.trust_ratios = std::move(trust_ratios);
  return true;
}

const ChunkPass::Arguments& ChunkUpdater::BeginUpdate(double norm) {
  FailpointOrDie("S7");
  absl::MutexLock lock(&mu_);
  const int64_t version = weights_.version();
  if (settings_.trace != nullptr) {
    run_.traced_nodes = traced_.Take(update_.step);
  }
  if (capture_ != nullptr && capture_->version() == version + 1) {
    run_.capture = std::move(capture_);
  }
  run_.weights = &weights_;
  ChunkWeights::Next& next = run_.next;
  next = weights_.Begin(/*for_streams=*/subscribers_.AnyReadsMessages());
  if (run_.capture != nullptr || settings_.replicates) {
    // The copy shares next.values unless a later version overwrites them.
    run_.copy.number = number_;
    run_.copy.elements = elements_;
    run_.copy.values = next.place == MemoryPlace::kShared
                           ? settings_.buffers->Take()
                           : next.values;
    for (int slot = 0; slot < settings_.slots; ++slot) {
      run_.copy.slots.push_back(settings_.buffers->Take());
    }
  } else if (subscribers_.AllReadDevice()) {
    next.place = MemoryPlace::kDevice;
  }
  ChunkPass::Arguments& pass = run_.arguments;
  pass.sum = &update_.sum;
  pass.step = settings_.recipe->At(version, update_.sum.sample_count(), norm,
                                   update_.learning_rate);
  pass.step.learning_rate /= update_.learning_rate_divisor;
  if (settings_.trust_ratios != nullptr) {
    pass.trust_ratios =
        settings_.trust_ratios->RatiosIn(number_, *run_.trust_ratios);
  }
  pass.next = &next;
  pass.streams = settings_.streams;
  pass.skip = settings_.recipe->Skips(norm);
  pass.copy = run_.copy.values != nullptr ? &run_.copy : nullptr;
  return pass;
}

Snapshot::Chunk ChunkUpdater::UpdateDone(absl::Time begin, absl::Time end) {
  if (settings_.trace != nullptr) {
    settings_.trace->Updated(update_.step, number_, run_.traced_nodes, begin,
                             end);
  }
  run_.weights->Complete(&run_.next);
  if (run_.capture != nullptr) run_.capture->Put(place_, run_.copy);
  FailpointOrDie("S9");
  LedgerEntry(settings_.attempt, number_, update_.step,
              update_.sum.sample_count());
  absl::MutexLock lock(&mu_);
  state_ = State::kReplicating;
  return settings_.replicates ? std::move(run_.copy) : Snapshot::Chunk();
}

bool ChunkUpdater::Publish(bool more) {
  const ChunkUpdate done = std::exchange(update_, ChunkUpdate());
  ChunkWeights::Next next = std::move(std::exchange(run_, Run()).next);
  absl::MutexLock lock(&mu_);
  weights_.Finish(std::move(next));
  FailpointOrDie("S10");
  const absl::Time begin = TimeFor(settings_.trace);
  subscribers_.Publish(more);
  if (settings_.trace != nullptr && settings_.trace->Wants(done.step)) {
    settings_.trace->Published(done.step, number_, subscribers_.Incarnations(),
                               begin);
  }
  if (done.outcome.has_value()) subscribers_.Answer(*done.outcome);
  state_ = State::kCollecting;
  return TakeUpdate();
}

void ChunkUpdater::DropFrom(int64_t contributor) {
  absl::MutexLock lock(&mu_);
  queue_->DropFrom(contributor);
}

std::optional<int> ChunkUpdater::FirstMissing(int64_t step) const {
  absl::MutexLock lock(&mu_);
  if (weights_.version() != step || state_ != State::kCollecting) {
    return std::nullopt;
  }
  return queue_->FirstMissing(step);
}

bool ChunkUpdater::Capture(std::shared_ptr<SnapshotCapture> capture) {
  absl::MutexLock lock(&mu_);
  capture_ = nullptr;
  if (capture == nullptr) return true;
  const int64_t now = weights_.version();
  const int64_t wanted = capture->version();
  if (now > wanted || (state_ != State::kCollecting && now + 1 >= wanted)) {
    return false;
  }
  if (now < wanted) {
    capture_ = std::move(capture);
    return true;
  }
  absl::StatusOr<Snapshot::Chunk> copy = CopyNow();
  if (copy.ok()) capture->Put(place_, *std::move(copy));
  return copy.ok();
}

absl::StatusOr<Snapshot::Chunk> ChunkUpdater::CopyNow() {
  Snapshot::Chunk copy;
  copy.number = number_;
  copy.elements = elements_;
  const EncodedFloats values = weights_.Exact(weights_.version());
  if (values.data == nullptr) return Missing();
  copy.values = Buffer(
      values.owner, const_cast<float*>(static_cast<const float*>(values.data)));
  for (int slot = 0; slot < settings_.slots; ++slot) {
    copy.slots.push_back(settings_.buffers->Take());
  }
  const absl::Status copied = pass_->CopyState(copy.slots);
  if (!copied.ok()) settings_.on_failure(number_, copied);
  TRIBUTARY_RETURN_IF_ERROR(copied);
  return copy;
}

absl::StatusOr<WeightsVersion> ChunkUpdater::Read(int64_t version,
                                                  WeightsForm form) {
  absl::MutexLock lock(&mu_);
  WeightsVersion weights;
  weights.chunk = number_;
  weights.version = version;
  weights.values = form == WeightsForm::kExact ? weights_.Exact(version)
                                               : weights_.Encoded(version);
  if (weights.values.data != nullptr) return weights;
  if (weights_.Has(version)) return Missing();
  return absl::FailedPreconditionError(
      absl::StrCat("chunk ", number_, " is at version ", weights_.version(),
                   "; version ", version, " is not there"));
}

absl::Status ChunkUpdater::Missing() const {
  return absl::InternalError(
      absl::StrCat("the weights of chunk ", number_,
                   " cannot be copied from the device that updates them"));
}

void ChunkUpdater::Subscribe(WeightsSubscriber* subscriber, MemoryPlace place) {
  absl::MutexLock lock(&mu_);
  subscribers_.Add(subscriber, place);
}

void ChunkUpdater::Unsubscribe(WeightsSubscriber* subscriber) {
  absl::MutexLock lock(&mu_);
  subscribers_.Remove(subscriber);
}

void ChunkUpdater::Share(Buffer even, Buffer odd) {
  absl::MutexLock lock(&mu_);
  weights_.Share(std::move(even), std::move(odd));
}

}  // namespace tributary
