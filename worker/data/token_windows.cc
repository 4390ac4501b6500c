#include "worker/data/token_windows.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

constexpr int32_t kNotCounted = -1;

// Returns the number of windows that fit into `tokens` for any phase.
int64_t Windows(int64_t tokens, int64_t context) {
  // Room for the largest phase, context - 1, for n windows, and for the label
  // after the last one.
  return tokens / context - 1;
}

}  // namespace

absl::Status TokenWindows::Check(const std::string& what,
                                 const std::string& unit, int64_t train_tokens,
                                 int64_t held_out_tokens, int64_t context) {
  if (context < 1 || context > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.gpt.context: ", context, "; must be from 1 to ",
                     std::numeric_limits<int32_t>::max()));
  }
  if (Windows(train_tokens, context) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, train_tokens, unit, " are left for training; model.gpt.context ",
        context, " needs at least ", 2 * context));
  }
  if (held_out_tokens < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, held_out_tokens, unit,
                     " are held out; at least 2 are needed to predict one"));
  }
  return absl::OkStatus();
}

TokenWindows::TokenWindows(const TokenSource* source, int64_t train_tokens,
                           int64_t context, uint64_t seed)
    : source_(source),
      train_tokens_(train_tokens),
      context_(context),
      seed_(seed) {}

int64_t TokenWindows::train_samples() const {
  return Windows(train_tokens_, context_);
}

int64_t TokenWindows::evaluation_samples() const {
  const int64_t predicted = source_->size() - train_tokens_ - 1;
  return (predicted + context_ - 1) / context_;
}

int64_t TokenWindows::Phase(int64_t epoch) const {
  RandomStream stream;
  stream.seed = seed_;
  stream.purpose = RandomPurpose::kWindowPhase;
  stream.a = static_cast<uint32_t>(epoch);
  stream.b = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  const uint64_t bits = stream.Block(0)[0];
  return static_cast<int64_t>(bits * static_cast<uint64_t>(context_) >> 32);
}

void TokenWindows::Resize(int64_t samples, Batch* batch) const {
  batch->error = absl::OkStatus();
  batch->samples = samples;
  batch->tokens.resize(static_cast<size_t>(samples * context_));
  batch->labels.resize(static_cast<size_t>(samples * context_));
  batch->features.clear();
  batch->values.clear();
}

absl::Status TokenWindows::CopyWindow(int64_t begin, int64_t end, int64_t place,
                                      Batch* batch) const {
  assert(begin >= 0 && begin + 1 < end && end <= source_->size());
  const int64_t count = std::min(context_, end - 1 - begin);
  int32_t* tokens = batch->tokens.data() + place * context_;
  int32_t* labels = batch->labels.data() + place * context_;
  TRIBUTARY_RETURN_IF_ERROR(source_->Copy(begin, count, tokens));
  std::copy(tokens + 1, tokens + count, labels);
  TRIBUTARY_RETURN_IF_ERROR(
      source_->Copy(begin + count, 1, labels + count - 1));
  std::fill(tokens + count, tokens + context_, 0);
  std::fill(labels + count, labels + context_, kNotCounted);
  return absl::OkStatus();
}

void TokenWindows::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                             Batch* batch) const {
  const int64_t samples = static_cast<int64_t>(indexes.size());
  const int64_t phase = Phase(epoch);
  Resize(samples, batch);
  for (int64_t place = 0; place < samples; ++place) {
    const int64_t index = indexes[static_cast<size_t>(place)];
    assert(index >= 0 && index < train_samples());
    batch->error =
        CopyWindow(phase + index * context_, train_tokens_, place, batch);
    if (!batch->error.ok()) return;
  }
}

void TokenWindows::ReadEvaluation(int64_t begin, int64_t end,
                                  Batch* batch) const {
  Resize(end - begin, batch);
  for (int64_t index = begin; index < end; ++index) {
    batch->error = CopyWindow(train_tokens_ + index * context_, source_->size(),
                              index - begin, batch);
    if (!batch->error.ok()) return;
  }
}

}  // namespace tributary
