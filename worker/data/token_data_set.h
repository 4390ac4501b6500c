// Data set of a language model that predicts each token from the tokens before
// it.
#ifndef TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/sample_data_set.h"
#include "worker/data/text/token_data.h"
#include "worker/data/text/token_windows.h"

namespace tributary {

// A sample is a window of `context` tokens (see TokenWindows); the label of
// each token is the token after it. If the last held-out window is shorter, it
// is padded with token 0 and label -1, which the loss ignores.
class TokenDataSet final : public SampleDataSet {
 public:
  // `seed` determines where the windows (the samples) begin. Returns
  // InvalidArgument, naming the field at fault, if the model's context is out
  // of range, its vocabulary is too small for the tokens, or `data` has too few
  // tokens.
  static absl::StatusOr<std::unique_ptr<TokenDataSet>> Create(
      TokenData data, const TextModel& model, uint64_t seed);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return windows_.train_windows(); }
  int64_t evaluation_samples() const override {
    return windows_.evaluation_windows();
  }
  uint64_t fingerprint() const override { return data_.fingerprint; }

 private:
  TokenDataSet(TokenData data, const TextModel& model,
               const TokenWindows& windows);

  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const TokenData data_;
  const TokenWindows windows_;
  DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_
