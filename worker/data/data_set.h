// Interface for sources of samples.
#ifndef TRIBUTARY_WORKER_DATA_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_DATA_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "worker/data/batch.h"

namespace tributary {

// Maximum size of DataSet::encoding in bytes, small enough for one message (see
// Limits::message_bytes). For comparison, the tokenizer of multilingual BERT
// has 2.2 MB.
inline constexpr size_t kMaxEncodingBytes = size_t{3} << 20;

// A source of samples, which are read by index. Opening a data set verifies its
// data. Some data, such as pictures, can only be verified when a sample is
// read; if they are invalid, reading the sample sets Batch::error. Immutable
// once it is open and therefore thread-safe.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual const DataInfo& info() const = 0;
  // Returns the number of samples in one epoch, which is at least 1. For
  // DataInfo::Kind::kTokens, a sample is a window of `context` tokens.
  virtual int64_t train_samples() const = 0;
  // Returns the number of held-out samples, or 0 if there are none.
  virtual int64_t evaluation_samples() const = 0;
  // Returns a number that is equal on two machines if their data are equal. For
  // files, it is the XXH3-64 hash that proto/DATA.md defines.
  virtual uint64_t fingerprint() const = 0;
  // Returns what is needed to prepare other inputs like the training samples
  // when the model is used later, such as the mean and the deviation that scale
  // a column of numbers. The result is a JSON object in UTF-8, of at most
  // kMaxEncodingBytes. It is stored with the model. Returns an empty string if
  // there is nothing to store.
  virtual std::string encoding() const { return ""; }

  // Fills `batch` with the given training samples in the given order. The same
  // (epoch, index) always yields the same sample; a text data set draws the
  // position of its windows anew for each epoch. Indexes must be in [0,
  // train_samples()).
  virtual void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                         Batch* batch) const = 0;
  // Fills `batch` with held-out samples [begin, end).
  virtual void ReadEvaluation(int64_t begin, int64_t end,
                              Batch* batch) const = 0;

  // Returns warnings about the data for the user, such as the names of samples
  // that were left out. Workers write them to their logs.
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_DATA_SET_H_
