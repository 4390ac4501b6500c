// Data set of a masked language model.
#ifndef TRIBUTARY_WORKER_DATA_MASKED_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_MASKED_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/sample_data_set.h"
#include "worker/data/text/sequence_tokens.h"
#include "worker/data/text/token_data.h"
#include "worker/data/text/token_masking.h"
#include "worker/data/text/token_windows.h"

namespace tributary {

// Data set for the training of a masked language model such as BERT. A sample
// is [CLS], a window of `context` - 2 tokens (see TokenWindows), and [SEP].
// TokenMasking chooses the tokens that are predicted: anew in each epoch for
// training samples, and always the same for held-out samples. The held-out
// windows contain each held-out token exactly once; the last is padded with
// [PAD].
class MaskedDataSet final : public SampleDataSet {
 public:
  struct Options {
    double mask_probability = 0.15;
    // The seed that determines where windows begin, and which tokens are
    // predicted.
    uint64_t seed = 0;
  };
  // `data` must have a tokenizer. Returns InvalidArgument, naming the field, if
  // the tokenizer is not WordPiece with the special tokens of BERT, if its
  // vocabulary is larger than the model's, or if the data have too few tokens.
  static absl::StatusOr<std::unique_ptr<MaskedDataSet>> Create(
      TokenData data, const TextModel& model, const Options& options);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return windows_.train_windows(); }
  int64_t evaluation_samples() const override {
    return windows_.evaluation_windows();
  }
  uint64_t fingerprint() const override { return data_.fingerprint; }
  // Returns the tokenizer (see TextEncoding).
  std::string encoding() const override { return encoding_; }

 private:
  MaskedDataSet(TokenData data, const TextModel& model,
                const TokenWindows& windows,
                const TokenMasking::Options& masking, std::string encoding);

  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const TokenData data_;
  const TokenWindows windows_;
  const SequenceTokens special_;
  const TokenMasking masking_;
  const std::string encoding_;
  DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_MASKED_DATA_SET_H_
