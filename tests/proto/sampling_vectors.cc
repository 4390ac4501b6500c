#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"
#include "tests/proto/vectors.h"
#include "worker/data/sampler.h"
#include "worker/data/text/text_tokens.h"
#include "worker/data/text/token_masking.h"
#include "worker/data/token_data_set.h"

namespace tributary {
namespace {

constexpr uint64_t kSeeds[] = {1, 42, 0xFEDCBA9876543210u};

Vectors PhiloxVectors() {
  Vectors list = Vectors::array();
  const auto add = [&list](const PhiloxBlock& counter,
                           const std::array<uint32_t, 2>& key) {
    list.push_back(
        {{"counter", counter}, {"key", key}, {"words", Philox(counter, key)}});
  };
  add({0, 0, 0, 0}, {0, 0});
  constexpr uint32_t kOnes = std::numeric_limits<uint32_t>::max();
  add({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes});
  add({1, 2, 3, 4}, {5, 6});
  return list;
}

Vectors StreamVectors() {
  Vectors list = Vectors::array();
  for (const uint64_t seed : kSeeds) {
    for (uint32_t purpose = 1; purpose <= 8; ++purpose) {
      const RandomStream stream = {seed, static_cast<RandomPurpose>(purpose), 7,
                                   purpose * 1000};
      const uint64_t block = purpose % 2 == 0 ? 3 : (uint64_t{5} << 32) + 9;
      const PhiloxBlock words = stream.Block(block);
      Vectors uniform = Vectors::array();
      for (const uint32_t word : words) uniform.push_back(UniformFloat(word));
      list.push_back({{"seed", absl::StrCat(seed)},
                      {"purpose", purpose},
                      {"a", stream.a},
                      {"b", stream.b},
                      {"block", absl::StrCat(block)},
                      {"words", words},
                      {"uniform", uniform}});
    }
  }
  return list;
}

struct Order {
  uint64_t seed;
  int64_t samples;
  int64_t global;
  int micro_batches;
  int64_t step;
  int micro_batch;
};

// Sizes 1 and 2, a square, the last batch of an epoch, empty micro-batches,
// later epochs, and more samples than 2^32.
constexpr Order kOrders[] = {{1, 1, 1, 1, 0, 0},
                             {1, 2, 1, 1, 1, 0},
                             {1, 9, 8, 4, 0, 3},
                             {1, 9, 8, 4, 1, 0},
                             {1, 9, 8, 4, 1, 1},
                             {42, 1000, 64, 8, 0, 0},
                             {42, 1000, 64, 8, 0, 7},
                             {42, 1000, 64, 8, 15, 4},
                             {42, 1000, 64, 8, 15, 7},
                             {42, 1000, 64, 8, 16, 2},
                             {42, 60000, 128, 8, 12345, 5},
                             {0xFEDCBA9876543210u, 60000, 32, 2, 99999, 1},
                             {7, int64_t{10000000000}, 16, 4, 77, 3}};

Vectors OrderVectors() {
  Vectors list = Vectors::array();
  for (const Order& o : kOrders) {
    const Sampler sampler(o.seed, o.samples, o.global, o.micro_batches);
    const Sampler::MicroBatch micro_batch =
        sampler.MicroBatchOf(o.step, o.micro_batch);
    list.push_back({{"seed", absl::StrCat(o.seed)},
                    {"samples", o.samples},
                    {"global", o.global},
                    {"micro_batches", o.micro_batches},
                    {"step", o.step},
                    {"micro_batch", o.micro_batch},
                    {"steps_per_epoch", sampler.steps_per_epoch()},
                    {"epoch", micro_batch.epoch},
                    {"indexes", micro_batch.indexes}});
  }
  return list;
}

// Byte i of the text is i, so the first token of a window is its start.
Vectors WindowVectors(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/counting.txt");
  std::string text(256, '\0');
  std::iota(text.begin(), text.end(), '\0');
  std::ofstream(path, std::ios::binary) << text;
  TextSpec spec;
  spec.add_path(path);
  Vectors list = Vectors::array();
  for (const uint64_t seed : kSeeds) {
    for (const int64_t context : {3, 16, 50}) {
      absl::StatusOr<TokenData> tokens = OpenTextTokens(spec);
      if (!tokens.ok()) std::abort();
      const auto data = TokenDataSet::Create(*std::move(tokens),
                                             {"model.gpt", context, 256}, seed);
      if (!data.ok()) std::abort();
      for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 33}) {
        Batch batch;
        (*data)->ReadTrain(epoch, {0}, &batch);
        list.push_back({{"seed", absl::StrCat(seed)},
                        {"context", context},
                        {"epoch", absl::StrCat(epoch)},
                        {"bytes", text.size()},
                        {"validation_fraction", spec.validation_fraction()},
                        {"train_samples", (*data)->train_samples()},
                        {"evaluation_samples", (*data)->evaluation_samples()},
                        {"start", batch.tokens[0]}});
      }
    }
  }
  return list;
}

// Windows of the tokens 5 to 104, in which ids below 5 are special.
Vectors MaskingVectors() {
  TokenMasking::Options options;
  options.special.classification = 0;
  options.special.separator = 1;
  options.special.mask = 2;
  options.special.padding = 3;
  options.special.unknown = 4;
  options.vocabulary = 30522;
  Vectors list = Vectors::array();
  const auto add = [&](int64_t epoch, int64_t index,
                       std::vector<int32_t> tokens) {
    std::vector<int32_t> labels(tokens.size());
    std::vector<int32_t> masked = tokens;
    TokenMasking(options).Mask(epoch, index, absl::MakeSpan(masked),
                               labels.data());
    list.push_back({{"seed", absl::StrCat(options.seed)},
                    {"probability", options.probability},
                    {"held_out", epoch == TokenMasking::kEvaluation},
                    {"epoch", absl::StrCat(epoch)},
                    {"index", absl::StrCat(index)},
                    {"vocabulary", options.vocabulary},
                    {"special", {0, 1, 2, 3, 4}},
                    {"tokens", tokens},
                    {"masked", masked},
                    {"labels", labels}});
  };
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 5);
  for (const uint64_t seed : kSeeds) {
    options.seed = seed;
    for (const double probability : {0.15, 0.5, 0.001}) {
      options.probability = probability;
      add(/*epoch=*/0, /*index=*/0, tokens);
      add(int64_t{1} << 33, int64_t{1} << 40, tokens);
      add(TokenMasking::kEvaluation, /*index=*/7, tokens);
    }
  }
  options.probability = 0.15;
  add(/*epoch=*/1, /*index=*/2, {4, 9, 4, 4, 1, 8, 0, 7, 2, 3});
  add(/*epoch=*/1, /*index=*/3, {4, 4, 1});
  add(/*epoch=*/1, /*index=*/4, {9});
  return list;
}

}  // namespace

Vectors SamplingVectors(const std::string& folder) {
  return {{"philox", PhiloxVectors()},
          {"streams", StreamVectors()},
          {"order", OrderVectors()},
          {"windows", WindowVectors(folder)},
          {"masking", MaskingVectors()}};
}

}  // namespace tributary
