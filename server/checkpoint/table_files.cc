#include "server/checkpoint/table_files.h"

#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "google/protobuf/text_format.h"
#include "server/checkpoint/manifest.h"

namespace tributary {
namespace {

// Checks that rows of `theirs` can become rows of `ours`.
absl::Status CheckTables(const std::string& folder, const SparseSpec& theirs,
                         const SparseSpec& ours) {
  const auto error = [&](const auto&... what) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": has other tables: ", what...));
  };
  if (theirs.table_size() != ours.table_size()) {
    return error(theirs.table_size(), ", this job has ", ours.table_size());
  }
  for (int table = 0; table < ours.table_size(); ++table) {
    const SparseTableSpec& a = theirs.table(table);
    const SparseTableSpec& b = ours.table(table);
    if (a.name() != b.name() || a.dim() != b.dim() ||
        a.buckets() != b.buckets() || a.rule_case() != b.rule_case()) {
      return error("table ", table, " is '", a.name(), "' with dim ", a.dim(),
                   ", ", a.buckets(), " buckets; this job's is '", b.name(),
                   "' with dim ", b.dim(), ", ", b.buckets(),
                   " buckets; the update rules must be equal, too");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadTableFilesOf(
    int shard, const std::string& folder, const CheckpointManifest& manifest,
    const SparseSpec& sparse,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckTables(folder, JobOf(manifest).sparse(), sparse));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<RowFloats> floats,
                             RowFloatsOf(sparse));
  std::vector<std::unique_ptr<TableRecordReader>> parts;
  for (const CheckpointFile* const part : TableFilesOf(shard, manifest)) {
    TRIBUTARY_ASSIGN_OR_RETURN(parts.emplace_back(),
                               TableRecordReader::Open(folder, *part, floats));
  }
  if (parts.empty()) {
    return absl::DataLossError(
        absl::StrCat(folder, "/", kManifestName, ": does not name ",
                     TableFileName(shard, manifest.servers(), /*part=*/0)));
  }
  return MergeParts(parts, floats, visit);
}

absl::Status ReadTableFiles(
    const std::string& folder, const CheckpointManifest& manifest,
    const SparseSpec& sparse,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit) {
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadTableFilesOf(shard, folder, manifest, sparse, visit));
  }
  return absl::OkStatus();
}

absl::Status RestoreTables(const std::string& folder,
                           const CheckpointManifest& manifest,
                           TableEngine* tables) {
  if (tables == nullptr) return absl::OkStatus();
  // Earlier values are restored by age, and each file has its own.
  std::map<std::pair<int, int>, std::vector<SparseTable::StepBefore>> before;
  TRIBUTARY_RETURN_IF_ERROR(ReadTableFiles(
      folder, manifest, tables->sparse(),
      [&](int table, const TableRecord& record) {
        if (const auto* const rows = std::get_if<BucketRows>(&record)) {
          return tables->table(table)->Restore(*rows);
        }
        const auto& step = std::get<SparseTable::StepBefore>(record);
        before[{table, step.age}].push_back(step);
        return absl::OkStatus();
      }));
  for (const auto& [key, steps] : before) {
    for (const SparseTable::StepBefore& step : steps) {
      TRIBUTARY_RETURN_IF_ERROR(tables->table(key.first)->Restore(step));
    }
  }
  return absl::OkStatus();
}

JobSpec JobOf(const CheckpointManifest& manifest) {
  JobSpec job;
  if (!google::protobuf::TextFormat::ParseFromString(manifest.job(), &job)) {
    return JobSpec();
  }
  return job;
}

}  // namespace tributary
