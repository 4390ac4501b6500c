// Reads the tables that a run has saved.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TABLES_SAVED_TABLE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TABLES_SAVED_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checkpoint/checkpoint_diff.h"

namespace tributary {

// In the functions below, `path` is a run's folder, for its final rows or, if
// it has none, its newest checkpoint, or a checkpoint. All return NotFound if
// it is neither, FailedPrecondition if it has no tables, InvalidArgument if it
// does not have the table or feature, and the errors of ReadTableFiles.

struct TableStatistics {
  std::string name;
  int dim = 0;
  int64_t rows = 0;
  int64_t bytes = 0;       // Of values and state.
  int64_t candidates = 0;  // Keys that wait for admission.
  // Of the rows: L2 norms, and steps since the last gradient.
  double mean_norm = 0;
  double largest_norm = 0;
  int64_t median_age = 0;
  int64_t oldest_age = 0;
};
absl::StatusOr<std::vector<TableStatistics>> MeasureTables(
    const std::string& path);

struct SavedRow {
  std::string table;
  uint64_t key = 0;
  bool exists = false;
  int64_t last_step = 0;  // 0 if it does not exist.
  std::vector<float> values;
};
// Returns the row of a key, or its initial values.
absl::StatusOr<SavedRow> LookUpKey(const std::string& path,
                                   const std::string& table, uint64_t key);
// Returns the row of a text of a feature.
absl::StatusOr<SavedRow> LookUpText(const std::string& path,
                                    const std::string& feature,
                                    const std::string& text);

struct ExportedTable {
  std::string folder;
  int64_t rows = 0;
};
// Writes keys.npy and values.npy to `folder`, which is created if its parent
// exists. An empty `table` is the only table; an empty `folder` is the table's
// name.
absl::StatusOr<ExportedTable> ExportTable(const std::string& path,
                                          std::string table,
                                          std::string folder);

// Returns the differences between the rows of two runs or checkpoints. Also
// returns FailedPrecondition if they have different models or tables.
absl::StatusOr<std::vector<TableDiff>> DiffTables(const std::string& a,
                                                  const std::string& b);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TABLES_SAVED_TABLE_H_
