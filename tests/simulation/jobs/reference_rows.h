// The tables of embeddings in the sequential reference.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_ROWS_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/sparse/table_bucket.h"
#include "proto/job.pb.h"
#include "tests/common/sparse/reference_table.h"
#include "worker/data/batch.h"

namespace tributary::simulation {

// The tables of a job in all versions, and the gradients of the step under way.
// Jobs without tables have none.
class ReferenceRows {
 public:
  explicit ReferenceRows(const JobSpec& job);

  // Sets the vectors of the samples that the step under way trains on, or those
  // of samples to evaluate.
  void SetTrainVectors(Batch* batch) const;
  void SetEvaluationVectors(Batch* batch) const {
    SetVectors(versions_.back(), batch);
  }
  // Adds the gradients of the next micro-batch of the step, from those of its
  // vectors.
  void AddMicroBatch(const Batch& batch, const std::vector<float>& gradients);

  // Adds up the gradients of the step. Call it after the last micro-batch.
  void Sum();
  // Adds the squares of the sum to those of the other parameters.
  void AddSquares(double* squares) const;
  // End the step.
  void Apply(float gradient_scale, double rate_factor);
  void Skip();

  // Returns the rows of each table and bucket in the newest version.
  std::vector<std::vector<BucketRows>> Rows() const;

 private:
  using Tables = std::vector<ReferenceTable>;
  using Gradients = std::vector<ReferenceTable::Gradients>;  // By table.

  void SetVectors(const Tables& tables, Batch* batch) const;
  // Rounds a row that is sent, as the job says.
  void Round(std::vector<float>* row) const;
  Gradients SumUnder(size_t node) const;

  const SparseSpec sparse_;
  std::vector<int> table_of_;  // By feature.
  std::vector<Tables> versions_;
  std::vector<Gradients> leaves_;
  Gradients total_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_ROWS_H_
