// Makes up clicks whose probabilities are known.
#ifndef TRIBUTARY_WORKER_DATA_CLICKS_CLICK_GENERATOR_H_
#define TRIBUTARY_WORKER_DATA_CLICKS_CLICK_GENERATOR_H_

#include <array>
#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "worker/data/clicks/zipf_distribution.h"
#include "worker/data/formats/criteo_format.h"

namespace tributary {

// A sample that ClickGenerator has made up.
struct GeneratedClick {
  std::array<int64_t, kCriteoNumbers> numbers;        // I1 to I13; at least 0.
  std::array<float, kCriteoNumbers> features;         // ln(1 + number)
  std::array<int64_t, kCriteoCategories> categories;  // C1 to C26; from 1.
  // The probability that the label is 1: the best possible prediction.
  double probability = 0;
  int32_t label = 0;
};

// The samples of ClicksSpec; "Clicks" in proto/DATA.md defines them. Each
// sample is a pure function of the spec, the part and the index, with the same
// bits on every machine. About a quarter of the labels are 1, and the AUC of
// the probabilities is about 0.80. Immutable and therefore thread-safe.
class ClickGenerator {
 public:
  // `spec` must be valid.
  explicit ClickGenerator(const ClicksSpec& spec);

  // Returns a training or held-out sample. `index` may be any number that is at
  // least 0.
  GeneratedClick Sample(bool held_out, int64_t index) const;

 private:
  static constexpr int kPairs = 4;

  // A function of the values of a category, with mean 0 and variance 1.
  class Effect {
   public:
    // `kind` tells the effects of one category from each other.
    Effect(uint64_t seed, uint64_t kind, uint64_t category,
           const ZipfDistribution& values, double exponent);
    double operator()(int64_t value) const;

   private:
    double Raw(int64_t value) const;

    uint64_t key_;
    // The factor for values whose logarithm to base 2, rounded down, is the
    // index: rare values have small effects, because no model could learn large
    // ones.
    std::array<double, 64> size_;
    double mean_ = 0;
    double scale_ = 1;
  };

  // The coefficients of a number's effect: weight * (feature - mean).
  struct Line {
    double mean = 0;
    double weight = 0;
  };

  const uint64_t seed_;
  std::vector<ZipfDistribution> values_;  // [kCriteoCategories]
  std::vector<Effect> effects_;           // [kCriteoCategories]
  std::vector<Effect> pair_effects_;      // [2 * kPairs]
  std::array<Line, kCriteoNumbers> lines_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICKS_CLICK_GENERATOR_H_
