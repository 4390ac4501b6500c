// Data set of texts, or pairs of texts, with class labels.
#ifndef TRIBUTARY_WORKER_DATA_LABELED_TEXT_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_LABELED_TEXT_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/sample_data_set.h"
#include "worker/data/text/sequence_encoder.h"
#include "worker/data/text/token_data.h"

namespace tributary {

// Reads CSV and TSV files (see ParseTextTable). Opening the data set converts
// their texts to tokens (see SequenceEncoder), which are kept in memory.
class LabeledTextDataSet final : public SampleDataSet {
 public:
  // Reads the files that `spec` names. Returns NotFound if a file does not
  // exist, and InvalidArgument for an invalid field or file, or a tokenizer
  // that does not suit the model.
  static absl::StatusOr<std::unique_ptr<LabeledTextDataSet>> Open(
      const LabeledTextSpec& spec, const TextModel& model);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_.sequences.size(); }
  int64_t evaluation_samples() const override { return test_.sequences.size(); }
  uint64_t fingerprint() const override { return fingerprint_; }
  // Returns the tokenizer and the names of the classes (see TextEncoding).
  std::string encoding() const override { return encoding_; }

 private:
  struct Part {
    Sequences sequences;
    std::vector<int32_t> labels;
  };

  LabeledTextDataSet() = default;
  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  Part train_;
  Part test_;
  DataInfo info_;
  int32_t filler_ = 0;
  uint64_t fingerprint_ = 0;
  std::string encoding_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_LABELED_TEXT_DATA_SET_H_
