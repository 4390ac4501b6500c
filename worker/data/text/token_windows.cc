#include "worker/data/text/token_windows.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

// Returns the number of windows that fit into `tokens` for any phase.
int64_t Windows(int64_t tokens, int64_t size) {
  // Room for the largest phase, size - 1, for n windows, and for the label
  // after the last one.
  return tokens / size - 1;
}

}  // namespace

absl::StatusOr<TokenWindows> TokenWindows::Create(const TokenData& data,
                                                  const TextModel& model,
                                                  const Options& options) {
  const int64_t least = options.extra_tokens + 1;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (model.context < least || model.context > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat(model.field, ".context: ", model.context,
                     "; must be from ", least, " to ", kMost));
  }
  const int64_t size = model.context - options.extra_tokens;
  const int64_t held_out = data.tokens->size() - data.train_tokens;
  if (Windows(data.train_tokens, size) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.too_short, data.train_tokens, data.unit,
                     " are left for training; ", model.field, ".context ",
                     model.context, " needs at least ", 2 * size));
  }
  if (options.predicts_next && held_out < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.too_short, held_out, data.unit,
                     " are held out; at least 2 are needed to predict one"));
  }
  if (held_out < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.too_short, "0", data.unit, " are held out; at least 1 is needed"));
  }
  return TokenWindows(data, size, options);
}

TokenWindows::TokenWindows(const TokenData& data, int64_t size,
                           const Options& options)
    : size_(size),
      train_tokens_(data.train_tokens),
      evaluation_end_(data.tokens->size() - (options.predicts_next ? 1 : 0)),
      seed_(options.seed) {}

int64_t TokenWindows::train_windows() const {
  return Windows(train_tokens_, size_);
}

int64_t TokenWindows::evaluation_windows() const {
  return (evaluation_end_ - train_tokens_ + size_ - 1) / size_;
}

int64_t TokenWindows::Phase(int64_t epoch) const {
  RandomStream stream;
  stream.seed = seed_;
  stream.purpose = RandomPurpose::kWindowPhase;
  stream.a = static_cast<uint32_t>(epoch);
  stream.b = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  const uint64_t bits = stream.Block(0)[0];
  return static_cast<int64_t>(bits * static_cast<uint64_t>(size_) >> 32);
}

TokenWindows::Window TokenWindows::Train(int64_t epoch, int64_t index) const {
  assert(index >= 0 && index < train_windows());
  return {Phase(epoch) + index * size_, size_};
}

TokenWindows::Window TokenWindows::Evaluation(int64_t index) const {
  assert(index >= 0 && index < evaluation_windows());
  const int64_t begin = train_tokens_ + index * size_;
  return {begin, std::min(size_, evaluation_end_ - begin)};
}

}  // namespace tributary
