#include "worker/data/clicks/click_generator.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/numerics/exponential.h"
#include "common/numerics/mix_bits.h"
#include "common/numerics/normal_quantile.h"
#include "common/numerics/philox.h"
#include "worker/data/formats/feature_hash.h"

namespace tributary {
namespace {

// The numbers of values of the categories of Criteo's Kaggle data set.
constexpr int64_t kValues[kCriteoCategories] = {
    1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
    93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
    2173,  4,    7046547,  18,      15,  286181, 105,     142572};
constexpr double kLeastValues = 3;

// Mean and deviation of the logarithms of the numbers, which are about those of
// the same data set.
constexpr double kMeans[kCriteoNumbers] = {0.7, 1.5, 1.8,  1.5, 7.5,  3.5, 1.2,
                                           2.0, 3.6, -0.5, 0.5, -1.5, 1.6};
constexpr double kDeviations[kCriteoNumbers] = {
    1.3, 2.0, 1.5, 1.0, 1.8, 1.6, 1.4, 0.9, 1.5, 0.6, 0.9, 1.2, 1.1};

// The categories of each pair, counted from 0. They have few values, so that
// each combination occurs often.
constexpr int kPairsOf[][2] = {{5, 13}, {16, 21}, {4, 22}, {1, 24}};

// Mean and deviation of a normally distributed logit with a quarter of clicks
// and an AUC of 0.80.
constexpr double kBias = -1.46624;
constexpr double kLogitDeviation = 1.36029;
// What the numbers, the categories and the pairs contribute to its variance.
constexpr double kNumbersShare = 0.3;
constexpr double kCategoriesShare = 0.55;
constexpr double kPairsShare = 0.15;

// Values above this number contribute to the moments of an effect as if their
// effects were random.
constexpr int64_t kExactMoments = 4096;
// The value of which an effect has half the size of that of a frequent one.
constexpr double kRareValue = 64;

constexpr uint64_t kNumberWeights = 0;
constexpr uint64_t kCategoryEffects = 1;
constexpr uint64_t kPairEffects = 2;

constexpr uint64_t kStride = 0x9e3779b97f4a7c15;
constexpr uint64_t kBlocks = 10;  // Of each sample.
constexpr size_t kWords = 4 * kBlocks;
static_assert(kCriteoNumbers + kCriteoCategories + 1 == kWords);

uint64_t EffectKey(uint64_t seed, uint64_t kind, uint64_t index) {
  return MixBits(seed ^ MixBits(64 * kind + index + 1));
}

// Returns a number in [-1, 1].
double SignedUniform(uint64_t bits) {
  return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63;
}

int BitsBelowTop(int64_t value) {
  return 63 - __builtin_clzll(static_cast<uint64_t>(value));
}

int64_t NumberOf(int number, uint32_t word) {
  return static_cast<int64_t>(std::floor(Exponential(
      kMeans[number] + kDeviations[number] * NormalQuantile(word))));
}

double FeatureOf(int64_t number) {
  return NaturalLogarithm(1 + static_cast<double>(number));
}

}  // namespace

ClickGenerator::Effect::Effect(uint64_t seed, uint64_t kind, uint64_t category,
                               const ZipfDistribution& values, double exponent)
    : key_(EffectKey(seed, kind, category)) {
  for (size_t i = 0; i < size_.size(); ++i) {
    const double logarithm =
        NaturalLogarithm(static_cast<double>(uint64_t{1} << i) / kRareValue);
    size_[i] = 1 / (1 + Exponential(exponent * logarithm));
  }
  double mean = 0;
  double square = 0;
  const int64_t exact = std::min(values.values(), kExactMoments - 1);
  for (int64_t value = 1; value <= exact; ++value) {
    const double probability =
        values.Cumulative(value) - values.Cumulative(value - 1);
    const double raw = Raw(value);
    mean += probability * raw;
    square += probability * raw * raw;
  }
  for (int64_t begin = kExactMoments; begin <= values.values(); begin *= 2) {
    const int64_t end = std::min(2 * begin - 1, values.values());
    const double probability =
        values.Cumulative(end) - values.Cumulative(begin - 1);
    const double size = size_[BitsBelowTop(begin)];
    square += probability * size * size / 3;
  }
  mean_ = mean;
  scale_ = 1 / std::sqrt(square - mean * mean);
}

double ClickGenerator::Effect::Raw(int64_t value) const {
  return SignedUniform(MixBits(key_ + static_cast<uint64_t>(value) * kStride)) *
         size_[static_cast<size_t>(BitsBelowTop(value))];
}

double ClickGenerator::Effect::operator()(int64_t value) const {
  return (Raw(value) - mean_) * scale_;
}

ClickGenerator::ClickGenerator(const ClicksSpec& spec) : seed_(spec.seed()) {
  const double exponent = spec.exponent();
  for (int i = 0; i < kCriteoCategories; ++i) {
    const double scaled =
        std::floor(static_cast<double>(kValues[i]) * spec.scale() + 0.5);
    values_.emplace_back(static_cast<int64_t>(std::max(scaled, kLeastValues)),
                         exponent);
    effects_.emplace_back(seed_, kCategoryEffects, static_cast<uint64_t>(i),
                          values_.back(), exponent);
  }
  for (int i = 0; i < 2 * kPairs; ++i) {
    const int category = kPairsOf[i / 2][i % 2];
    pair_effects_.emplace_back(
        seed_, kPairEffects, static_cast<uint64_t>(category),
        values_[static_cast<size_t>(category)], exponent);
  }
  // Equally spaced quantiles give the moments of the numbers' features.
  constexpr int kQuantiles = 4096;
  double squares = 0;
  for (int i = 0; i < kCriteoNumbers; ++i) {
    double mean = 0;
    double square = 0;
    for (uint32_t k = 0; k < kQuantiles; ++k) {
      const double feature = FeatureOf(NumberOf(i, (k << 20) + (1u << 19)));
      mean += feature / kQuantiles;
      square += feature * feature / kQuantiles;
    }
    const double uniform = SignedUniform(
        EffectKey(seed_, kNumberWeights, static_cast<uint64_t>(i)));
    // Between 1/2 and 1, or between -1 and -1/2.
    const double weight = uniform / 2 + (uniform < 0 ? -0.5 : 0.5);
    squares += weight * weight;
    lines_[i] = {mean, weight / std::sqrt(square - mean * mean)};
  }
  for (Line& line : lines_) line.weight *= std::sqrt(kNumbersShare / squares);
}

GeneratedClick ClickGenerator::Sample(bool held_out, int64_t index) const {
  const RandomStream stream = {seed_, RandomPurpose::kClicks, held_out ? 1u : 0,
                               0};
  uint32_t words[kWords];
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const PhiloxBlock block =
        stream.Block(static_cast<uint64_t>(index) * kBlocks + i);
    std::copy(block.begin(), block.end(), words + 4 * i);
  }
  const auto uniform = [&](size_t i) { return (words[i] + 0.5) * 0x1p-32; };
  GeneratedClick click;
  double numbers = 0;
  for (int i = 0; i < kCriteoNumbers; ++i) {
    click.numbers[i] = NumberOf(i, words[i]);
    const double feature = FeatureOf(click.numbers[i]);
    click.features[i] = static_cast<float>(feature);
    numbers += lines_[i].weight * (feature - lines_[i].mean);
  }
  double categories = 0;
  for (int i = 0; i < kCriteoCategories; ++i) {
    click.categories[i] = values_[i].Quantile(uniform(kCriteoNumbers + i));
    categories += effects_[i](click.categories[i]);
  }
  double pairs = 0;
  for (int i = 0; i < kPairs; ++i) {
    pairs += pair_effects_[2 * i](click.categories[kPairsOf[i][0]]) *
             pair_effects_[2 * i + 1](click.categories[kPairsOf[i][1]]);
  }
  const double logit =
      kBias +
      kLogitDeviation *
          (numbers +
           std::sqrt(kCategoriesShare / kCriteoCategories) * categories +
           std::sqrt(kPairsShare / kPairs) * pairs);
  click.probability = 1 / (1 + Exponential(-logit));
  click.label = uniform(kWords - 1) < click.probability ? 1 : 0;
  return click;
}

}  // namespace tributary
