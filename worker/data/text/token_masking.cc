#include "worker/data/text/token_masking.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "common/numerics/philox.h"

namespace tributary {
namespace {

constexpr int32_t kNotPredicted = -1;
// Blocks of the stream for one sample, and its greatest length.
constexpr uint64_t kBlocks = 1 << 16;
constexpr float kMasked = 0.8f;
constexpr float kMaskedOrDrawn = 0.9f;

}  // namespace

void TokenMasking::Mask(int64_t epoch, int64_t index,
                        absl::Span<int32_t> tokens, int32_t* labels) const {
  assert(!tokens.empty() && tokens.size() <= kBlocks);
  RandomStream stream;
  stream.seed = options_.seed;
  stream.purpose = RandomPurpose::kMasking;
  stream.a = static_cast<uint32_t>(epoch);
  stream.b = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  const auto block = [&](size_t position) {
    return stream.Block(static_cast<uint64_t>(index) * kBlocks + position);
  };
  const auto predict = [&](size_t position, const PhiloxBlock& words) {
    int32_t& token = tokens[position];
    labels[position] = token;
    const float action = UniformFloat(words[1]);
    if (action < kMasked) {
      token = options_.special.mask;
    } else if (action < kMaskedOrDrawn) {
      token = static_cast<int32_t>(
          uint64_t{words[2]} * static_cast<uint64_t>(options_.vocabulary) >>
          32);
    }
  };

  const bool all_special = std::all_of(
      tokens.begin(), tokens.end(),
      [this](int32_t token) { return options_.special.Contains(token); });
  const float probability = static_cast<float>(options_.probability);
  bool any = false;
  size_t least = tokens.size();
  uint32_t least_word = 0;
  for (size_t position = 0; position < tokens.size(); ++position) {
    labels[position] = kNotPredicted;
    if (!all_special && options_.special.Contains(tokens[position])) continue;
    const PhiloxBlock words = block(position);
    if (least == tokens.size() || words[0] < least_word) {
      least = position;
      least_word = words[0];
    }
    if (UniformFloat(words[0]) >= probability) continue;
    any = true;
    predict(position, words);
  }
  if (!any) predict(least, block(least));
}

}  // namespace tributary
