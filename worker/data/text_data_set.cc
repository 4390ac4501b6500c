#include "worker/data/text_data_set.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"
#include "common/text/counted.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr int64_t kByteValues = 256;
constexpr int32_t kNotCounted = -1;

absl::Status CheckSpec(const TextSpec& spec, int64_t context) {
  if (spec.path().empty()) {
    return absl::InvalidArgumentError(
        "data.text.path: must name at least one file");
  }
  if (!(spec.validation_fraction() > 0 && spec.validation_fraction() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.text.validation_fraction: ", spec.validation_fraction(),
        "; must be above 0 and below 1"));
  }
  if (context < 1 || context > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.gpt.context: ", context, "; must be from 1 to ",
                     std::numeric_limits<int32_t>::max()));
  }
  return absl::OkStatus();
}

// Accepts any bytes as text except a NumPy array: training on its header and
// binary numbers is a mistake.
absl::Status CheckIsNoArray(const std::string& path, absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kNpyMagic)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": is a NumPy array (.npy); data.text reads text, each byte a token: "
      "name the text itself, or write the array's bytes in Python with "
      "numpy.load('",
      path, "').astype('uint8').tofile('data.txt')"));
}

// Returns the number of windows that fit into `bytes` for any phase.
int64_t Windows(int64_t bytes, int64_t context) {
  // Room for the largest phase, context - 1, for n windows, and for the label
  // after the last one.
  return bytes / context - 1;
}

absl::Status CheckLength(const TextSpec& spec, int64_t bytes,
                         int64_t train_bytes, int64_t context) {
  const std::string which =
      absl::StrCat(absl::StrJoin(spec.path(), " + "), ": ",
                   Counted(bytes, "byte is", "bytes are"),
                   " too short: with data.text.validation_fraction ",
                   spec.validation_fraction(), " ");
  if (Windows(train_bytes, context) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        which, train_bytes, " are left for training; model.gpt.context ",
        context, " needs at least ", 2 * context));
  }
  if (bytes - train_bytes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(which, bytes - train_bytes,
                     " are held out; at least 2 are needed to predict one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextDataSet>> TextDataSet::Open(
    const TextSpec& spec, int64_t context, uint64_t seed) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec(spec, context));
  std::string text;
  std::vector<size_t> ends;
  for (const std::string& path : spec.path()) {
    const size_t begin = text.size();
    TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &text));
    TRIBUTARY_RETURN_IF_ERROR(
        CheckIsNoArray(path, absl::string_view(text).substr(begin)));
    ends.push_back(text.size());
  }
  std::vector<absl::string_view> files;
  size_t begin = 0;
  for (const size_t end : ends) {
    files.push_back(absl::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  const uint64_t fingerprint = DataFingerprint(files);
  const int64_t bytes = static_cast<int64_t>(text.size());
  const int64_t train_bytes = static_cast<int64_t>(std::floor(
      static_cast<double>(bytes) * (1 - spec.validation_fraction())));
  TRIBUTARY_RETURN_IF_ERROR(CheckLength(spec, bytes, train_bytes, context));
  return std::unique_ptr<TextDataSet>(new TextDataSet(
      std::move(text), train_bytes, context, seed, fingerprint));
}

TextDataSet::TextDataSet(std::string text, int64_t train_bytes, int64_t context,
                         uint64_t seed, uint64_t fingerprint)
    : text_(std::move(text)),
      train_bytes_(train_bytes),
      context_(context),
      seed_(seed),
      fingerprint_(fingerprint) {
  info_.kind = DataInfo::Kind::kTokens;
  info_.sample_shape = {context};
  info_.classes = kByteValues;
}

int64_t TextDataSet::train_samples() const {
  return Windows(train_bytes_, context_);
}

int64_t TextDataSet::evaluation_samples() const {
  const int64_t predicted = text_bytes() - train_bytes_ - 1;
  return (predicted + context_ - 1) / context_;
}

int64_t TextDataSet::Phase(int64_t epoch) const {
  RandomStream stream;
  stream.seed = seed_;
  stream.purpose = RandomPurpose::kWindowPhase;
  stream.a = static_cast<uint32_t>(epoch);
  stream.b = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  const uint64_t bits = stream.Block(0)[0];
  return static_cast<int64_t>(bits * static_cast<uint64_t>(context_) >> 32);
}

void TextDataSet::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->tokens.resize(static_cast<size_t>(samples * context_));
  batch->labels.resize(static_cast<size_t>(samples * context_));
  batch->features.clear();
  batch->values.clear();
}

void TextDataSet::CopyWindow(int64_t begin, int64_t end, int64_t place,
                             Batch* batch) const {
  assert(begin >= 0 && begin + 1 < end && end <= text_bytes());
  const int64_t count = std::min(context_, end - 1 - begin);
  const char* text = text_.data() + begin;
  int32_t* tokens = batch->tokens.data() + place * context_;
  int32_t* labels = batch->labels.data() + place * context_;
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<unsigned char>(text[i]);
    labels[i] = static_cast<unsigned char>(text[i + 1]);
  }
  std::fill(tokens + count, tokens + context_, 0);
  std::fill(labels + count, labels + context_, kNotCounted);
}

void TextDataSet::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                            Batch* batch) const {
  const int64_t samples = static_cast<int64_t>(indexes.size());
  const int64_t phase = Phase(epoch);
  Resize(samples, batch);
  for (int64_t place = 0; place < samples; ++place) {
    const int64_t index = indexes[static_cast<size_t>(place)];
    assert(index >= 0 && index < train_samples());
    CopyWindow(phase + index * context_, train_bytes_, place, batch);
  }
}

void TextDataSet::ReadEvaluation(int64_t begin, int64_t end,
                                 Batch* batch) const {
  Resize(end - begin, batch);
  for (int64_t index = begin; index < end; ++index) {
    CopyWindow(train_bytes_ + index * context_, text_bytes(), index - begin,
               batch);
  }
}

}  // namespace tributary
