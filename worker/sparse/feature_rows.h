// The way from keys to the vectors that a model reads, and back from their
// gradients to those of rows.
#ifndef TRIBUTARY_WORKER_SPARSE_FEATURE_ROWS_H_
#define TRIBUTARY_WORKER_SPARSE_FEATURE_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sparse/row_gradients.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace tributary {

// Which rows a micro-batch reads, and where each of its keys finds its row.
struct BatchRows {
  TableKeys keys;
  // For each feature, for each of its keys in the batch: the number of the row
  // among the keys of the feature's table.
  std::vector<std::vector<int32_t>> row_of_key;
};

// Pools the rows of a micro-batch's keys to one vector for each sample and
// feature. Immutable and thread-safe.
class FeatureRows {
 public:
  struct Feature {
    std::string name;
    int table = 0;
    int dim = 0;
    int64_t begin = 0;  // Of the feature's vector in those of a sample.
    SparseFeatureSpec::Pooling pooling = SparseFeatureSpec::SUM;
  };

  explicit FeatureRows(const SparseSpec& sparse);

  // Returns the features in the order of the job.
  const std::vector<Feature>& features() const { return features_; }
  // Returns the number of values of a row of each table.
  const RowDims& dims() const { return dims_; }
  // Returns the number of elements of the vectors of one sample.
  int64_t width() const { return width_; }

  // Finds the rows of a batch. Returns InvalidArgument, naming the feature, if
  // the batch does not have the keys of each feature, or a feature with pooling
  // NONE does not have one key for each sample.
  absl::StatusOr<BatchRows> RowsOf(const Batch& batch) const;

  // Writes the vectors of the samples, [samples, width()], features in the
  // order of the job. `values` are the rows as RequestedRows::Await returns
  // them. The rows of a sample's keys are added in the order of the keys.
  void Pool(const Batch& batch, const BatchRows& rows, const float* values,
            float* vectors) const;
  // Returns the gradients of the rows, from those of the vectors. The gradients
  // of a row are added in the order of the samples, within a sample in the
  // order of the features, and within a feature in the order of the keys.
  TableGradients GradientsOf(const Batch& batch, const BatchRows& rows,
                             const float* vector_gradients) const;

 private:
  const int tables_;
  std::vector<Feature> features_;
  RowDims dims_;
  int64_t width_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_FEATURE_ROWS_H_
