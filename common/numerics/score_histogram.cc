#include "common/numerics/score_histogram.h"

#include <cstring>

namespace tributary {

uint32_t ScoreHistogram::BinOf(float score) {
  // Equal scores must be in one bin.
  if (score == 0) score = 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof(bits));
  // Negative numbers become smaller with larger bits.
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ordered >> 8;
}

void ScoreHistogram::Add(float score, int label) {
  Counts& counts = bins_[BinOf(score)];
  ++(label == 1 ? counts.positives : counts.negatives);
}

void ScoreHistogram::Add(uint32_t bin, const Counts& counts) {
  Counts& sum = bins_[bin];
  sum.negatives += counts.negatives;
  sum.positives += counts.positives;
}

double ScoreHistogram::Auc() const {
  // Float64 is exact below 2^53, and close enough above.
  double negatives = 0;
  double positives = 0;
  double ordered = 0;
  for (const auto& [bin, counts] : bins_) {
    const auto above = static_cast<double>(counts.positives);
    ordered +=
        above * (negatives + 0.5 * static_cast<double>(counts.negatives));
    negatives += static_cast<double>(counts.negatives);
    positives += above;
  }
  if (negatives == 0 || positives == 0) return 0.5;
  return ordered / negatives / positives;
}

}  // namespace tributary
