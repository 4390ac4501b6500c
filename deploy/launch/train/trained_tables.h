// The tables of a trained model.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_TABLES_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_TABLES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sparse/sparse_table.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/sparse/feature_rows.h"

namespace tributary {

// The rows of a run's tables, in memory. Thread-safe.
class TrainedTables {
 public:
  // Reads the tables from the run folder `run`; see FindSavedTables in
  // server/checkpoint/final_tables.h. Returns null if the job has no tables,
  // and the errors of FindSavedTables and ReadTableFiles.
  static absl::StatusOr<std::unique_ptr<TrainedTables>> Load(
      const JobSpec& job, const std::string& run);

  // Sets the vectors of a batch with keys. Returns the errors of
  // FeatureRows::RowsOf.
  absl::Status SetVectors(Batch* batch) const;

 private:
  explicit TrainedTables(const SparseSpec& sparse) : features_(sparse) {}

  const FeatureRows features_;
  std::vector<std::unique_ptr<SparseTable>> tables_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_TABLES_H_
