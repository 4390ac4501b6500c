// Data set of text files: bytes, divided into windows of tokens.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/token_windows.h"

namespace tributary {

// Concatenates the bytes of all files. Without a tokenizer, each byte is a
// token. With one, each file is tokenized when the data set opens; its
// end-of-text token, if it has one, follows each file, and the vocabulary is
// the tokenizer's. Of N tokens, the first floor(N * (1 - validation_fraction))
// are for training, and the rest is the held-out part. TokenWindows describes
// the samples.
class TextDataSet final : public DataSet {
 public:
  // Reads the files that `spec` names. `context` is the length of a window in
  // tokens. `seed` determines the phases. Returns NotFound if a file does not
  // exist, and InvalidArgument if a field of `spec`, `context` or a file is
  // invalid, or if the text is too short.
  static absl::StatusOr<std::unique_ptr<TextDataSet>> Open(const TextSpec& spec,
                                                           int64_t context,
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
  TextDataSet(std::unique_ptr<TokenSource> tokens, int64_t vocabulary,
              int64_t train_tokens, int64_t context, uint64_t seed,
              uint64_t fingerprint);

  const std::unique_ptr<TokenSource> tokens_;
  const TokenWindows windows_;
  const uint64_t fingerprint_;
  DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_
