// The area under the ROC curve of scores.
#ifndef TRIBUTARY_COMMON_NUMERICS_SCORE_HISTOGRAM_H_
#define TRIBUTARY_COMMON_NUMERICS_SCORE_HISTOGRAM_H_

#include <cstdint>
#include <map>

namespace tributary {

// Counts the scores of samples with the labels 0 and 1 in bins, and computes
// the area under the ROC curve (AUC): the probability that a sample with label
// 1 has a higher score than a sample with label 0, where ties count one half.
//
// The bin of a score is the upper 24 bits of its float32, transformed so that
// the order of the bins is that of the scores: a bin spans 2^-15 of the scores
// in it. Scores of one bin are ties. The AUC differs from the exact one by at
// most half the share of pairs that fall into one bin, which is near 1e-5 for
// scores that are spread over a few units, and by far less than that share if
// the order within a bin is random. Counts are integers, so a sum of histograms
// does not depend on the order in which they are added.
//
// Not thread-safe.
class ScoreHistogram {
 public:
  // Number of bins.
  static constexpr uint32_t kBins = uint32_t{1} << 24;

  struct Counts {
    int64_t negatives = 0;  // Number of scores with label 0.
    int64_t positives = 0;  // Number of scores with label 1.
  };

  // Returns the bin of a score, below kBins. A NaN is in the first or last bin.
  static uint32_t BinOf(float score);

  // Adds a score whose label is 0 or 1.
  void Add(float score, int label);
  // Adds counts to a bin below kBins.
  void Add(uint32_t bin, const Counts& counts);

  // Returns the counts of all bins that are not empty.
  const std::map<uint32_t, Counts>& bins() const { return bins_; }
  // Returns the AUC; 0.5 if all labels are equal.
  double Auc() const;

 private:
  std::map<uint32_t, Counts> bins_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_SCORE_HISTOGRAM_H_
