#include "spirals.h"

#include <cmath>

Spirals::Spirals(int64_t samples, int64_t arms)
    : samples_(samples), arms_(arms), held_out_(samples / 5) {
  info_.kind = tributary::DataInfo::Kind::kRows;
  info_.sample_shape = {2};
  info_.classes = arms;
}

// Differs for data that differ, so that workers with other data are refused.
uint64_t Spirals::fingerprint() const { return samples_ * 1000 + arms_; }

void Spirals::ReadTrain(int64_t /*epoch*/, absl::Span<const int64_t> indexes,
                        tributary::Batch* batch) const {
  *batch = tributary::Batch();
  // Every fifth point is held out.
  for (const int64_t i : indexes) Append(i / 4 * 5 + i % 4, batch);
}

void Spirals::ReadEvaluation(int64_t begin, int64_t end,
                             tributary::Batch* batch) const {
  *batch = tributary::Batch();
  for (int64_t i = begin; i < end; ++i) Append(5 * i + 4, batch);
}

void Spirals::Append(int64_t point, tributary::Batch* batch) const {
  constexpr double kPi = 3.14159265358979323846;
  const int64_t arm = point % arms_;
  const double radius =
      static_cast<double>(point) / static_cast<double>(samples_);
  const double angle =
      2 * kPi *
      (radius + static_cast<double>(arm) / static_cast<double>(arms_));
  batch->features.push_back(static_cast<float>(radius * std::cos(angle)));
  batch->features.push_back(static_cast<float>(radius * std::sin(angle)));
  batch->labels.push_back(static_cast<int32_t>(arm));
  ++batch->samples;
}

absl::StatusOr<std::unique_ptr<tributary::DataSet>> OpenSpirals(
    tributary::Config* config) {
  const int64_t samples = config->Integer("samples", 1500, 5, 1000000);
  const int64_t arms = config->Integer("arms", 3, 2, 100);
  return std::make_unique<Spirals>(samples, arms);
}
