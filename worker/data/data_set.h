// A source of samples: opened once, checked whole, then read by index from any
// thread.
#ifndef TRIBUTARY_WORKER_DATA_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_DATA_SET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace tributary {

// Immutable after Open, so safe from any thread.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual const DataInfo& info() const = 0;
  // Samples (text: sequences of `context` tokens) in one epoch; at least 1.
  virtual int64_t train_samples() const = 0;
  // Held-out samples; 0: there are none.
  virtual int64_t evaluation_samples() const = 0;
  // XXH3-64 over the files' sizes and contents: equal on two machines when
  // their data are.
  virtual uint64_t fingerprint() const = 0;

  // Fills `batch` with the given training samples, in the given order. The same
  // (epoch, index) is always the same sample; text draws the start of its
  // windows anew for each epoch. Indexes must lie in [0, train_samples()).
  virtual void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                         Batch* batch) const = 0;
  // Held-out samples [begin, end).
  virtual void ReadEvaluation(int64_t begin, int64_t end,
                              Batch* batch) const = 0;
};

// Opens what `job.data` names and checks all of it. Errors are InvalidArgument
// or NotFound and name the file, the byte offset or line, what is wrong and
// what would be right.
absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_DATA_SET_H_
