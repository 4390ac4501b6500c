#include "deploy/launch/train/trained_tables.h"

#include <variant>

#include "common/base/status_macros.h"
#include "server/checkpoint/final_tables.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/table_files.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<TrainedTables>> TrainedTables::Load(
    const JobSpec& job, const std::string& run) {
  if (!job.has_sparse()) return nullptr;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string folder, FindSavedTables(run));
  TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                             ReadManifest(folder));
  std::unique_ptr<TrainedTables> trained(new TrainedTables(job.sparse()));
  for (const SparseTableSpec& spec : job.sparse().table()) {
    SparseTable::Options options;
    options.spec = spec;
    // One table has the rows of all servers.
    options.spec.set_memory_bytes(spec.memory_bytes() * manifest.servers());
    options.seed = job.seed();
    options.version = manifest.version();
    TRIBUTARY_ASSIGN_OR_RETURN(trained->tables_.emplace_back(),
                               SparseTable::Create(options));
  }
  TRIBUTARY_RETURN_IF_ERROR(ReadTableFiles(
      folder, manifest, job.sparse(),
      [&](int table, const TableRecord& record) {
        const auto* const rows = std::get_if<BucketRows>(&record);
        return rows == nullptr ? absl::OkStatus()
                               : trained->tables_[table]->Restore(*rows);
      }));
  return trained;
}

absl::Status TrainedTables::SetVectors(Batch* batch) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const BatchRows rows, features_.RowsOf(*batch));
  std::vector<float> values;
  for (size_t number = 0; number < tables_.size(); ++number) {
    const SparseTable& table = *tables_[number];
    const size_t begin = values.size();
    values.resize(begin + rows.keys[number].size() * table.dim());
    TRIBUTARY_RETURN_IF_ERROR(
        table.Read(table.version(), rows.keys[number], values.data() + begin));
  }
  batch->vectors.resize(batch->samples * features_.width());
  features_.Pool(*batch, rows, values.data(), batch->vectors.data());
  return absl::OkStatus();
}

}  // namespace tributary
