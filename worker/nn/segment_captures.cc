#include "worker/nn/segment_captures.h"

#include <utility>

namespace tributary {
namespace {

// Number of kinds of micro-batches with captures: full ones, and shorter ones
// at the end of an epoch, each with up to two arrays of weights (see
// Exchange::DeviceWeights). If there are more, all captures are discarded and
// made again, which only costs time.
constexpr size_t kMaximumCaptures = 8;

}  // namespace

bool SegmentCaptures::Kind::operator==(const Kind& other) const {
  return seed == other.seed && samples == other.samples &&
         weights == other.weights && gradients == other.gradients;
}

void SegmentCaptures::Begin(const Kind* kind) {
  current_ = nullptr;
  if (kind == nullptr || device_->capture() == nullptr || !status_.ok()) return;
  for (const std::unique_ptr<Captures>& captures : captures_) {
    if (!(captures->kind == *kind)) continue;
    current_ = captures.get();
    return;
  }
  if (captures_.size() >= kMaximumCaptures) captures_.clear();
  captures_.push_back(std::make_unique<Captures>());
  current_ = captures_.back().get();
  current_->kind = *kind;
  for (Captured& pass : current_->passes) pass.resize(segments_);
}

void SegmentCaptures::Run(Pass pass, size_t segment,
                          absl::FunctionRef<void()> work) {
  if (!active()) return work();
  std::unique_ptr<CapturedWork>& captured =
      current_->passes[static_cast<size_t>(pass)][segment];
  if (captured != nullptr && device_->capture()->Launch(*captured)) return;
  captured.reset();
  if (status_.ok()) status_ = device_->capture()->Begin();
  if (!status_.ok()) return work();
  work();
  absl::StatusOr<std::unique_ptr<CapturedWork>> made =
      device_->capture()->End();
  status_ = made.status();
  if (made.ok() && device_->capture()->Launch(**made)) {
    captured = *std::move(made);
  } else {
    work();
  }
}

}  // namespace tributary
