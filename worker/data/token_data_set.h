// Data set of files of token ids.
#ifndef TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/token_windows.h"

namespace tributary {

// Concatenates the tokens of all files. The held-out part consists of the files
// of validation_path or, without these, of the end of the training files, as in
// TextDataSet. TokenWindows describes the samples.
//
// The files stay open, and each batch is read from the disk. They must not
// change while the job runs. Every token is checked when the data set opens,
// and again when it is read: if a file has become shorter, or has a token that
// is not below the vocabulary, Batch::error says so.
class TokenDataSet final : public DataSet {
 public:
  // Opens the files that `spec` names. `context` is the length of a window in
  // tokens, and `vocabulary` the number of token ids of the model. `seed`
  // determines the phases. Returns NotFound if a file does not exist, and
  // InvalidArgument if a field or a file is invalid, a token is not below
  // `vocabulary`, or there are too few tokens.
  static absl::StatusOr<std::unique_ptr<TokenDataSet>> Open(
      const TokensSpec& spec, int64_t context, int64_t vocabulary,
      uint64_t seed);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return windows_.train_samples(); }
  int64_t evaluation_samples() const override {
    return windows_.evaluation_samples();
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    windows_.ReadTrain(epoch, indexes, batch);
  }
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    windows_.ReadEvaluation(begin, end, batch);
  }

 private:
  TokenDataSet(std::unique_ptr<TokenSource> tokens, int64_t vocabulary,
               int64_t train_tokens, int64_t context, uint64_t seed,
               uint64_t fingerprint);

  const std::unique_ptr<TokenSource> tokens_;
  const TokenWindows windows_;
  const uint64_t fingerprint_;
  DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TOKEN_DATA_SET_H_
