#include "deploy/tools/tables/saved_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"
#include "common/sparse/initial_rows.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/table_bucket.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/final_tables.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/table_files.h"
#include "worker/data/formats/feature_hash.h"

namespace tributary {
namespace {

struct SavedTables {
  std::string folder;
  CheckpointManifest manifest;
  JobSpec job;
};

absl::StatusOr<SavedTables> OpenSaved(const std::string& path) {
  SavedTables saved;
  TRIBUTARY_ASSIGN_OR_RETURN(saved.folder, FindSavedTables(path));
  TRIBUTARY_ASSIGN_OR_RETURN(saved.manifest, ReadManifest(saved.folder));
  saved.job = JobOf(saved.manifest);
  if (!saved.manifest.tables()) {
    return absl::FailedPreconditionError(
        absl::StrCat(saved.folder, ": has no tables"));
  }
  return saved;
}

// Calls visit(table, rows) for each bucket.
absl::Status VisitBuckets(
    const SavedTables& saved,
    const std::function<absl::Status(int, const BucketRows&)>& visit) {
  return ReadTableFiles(
      saved.folder, saved.manifest, saved.job.sparse(),
      [&](int table, const TableRecord& record) {
        const auto* const rows = std::get_if<BucketRows>(&record);
        return rows == nullptr ? absl::OkStatus() : visit(table, *rows);
      });
}

// Returns the number of the table.
absl::StatusOr<int> FindTable(const SavedTables& saved,
                              const std::string& name) {
  const SparseSpec& sparse = saved.job.sparse();
  if (name.empty() && sparse.table_size() == 1) return 0;
  std::vector<std::string> names;
  for (int table = 0; table < sparse.table_size(); ++table) {
    if (sparse.table(table).name() == name) return table;
    names.push_back(sparse.table(table).name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(saved.folder, ": ",
                   name.empty() ? "has several tables"
                                : absl::StrCat("has no table '", name, "'"),
                   "; name one of: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<SavedRow> LookUp(const SavedTables& saved, int table,
                                uint64_t key) {
  const SparseTableSpec& spec = saved.job.sparse().table(table);
  SavedRow row;
  row.table = spec.name();
  row.key = key;
  row.values.resize(spec.dim());
  InitialRows(spec, saved.job.seed()).Write(key, row.values.data());
  const int bucket = BucketOfHash(KeyHash(key), spec.buckets());
  TRIBUTARY_RETURN_IF_ERROR(
      VisitBuckets(saved, [&](int number, const BucketRows& rows) {
        if (number != table || rows.bucket != bucket) return absl::OkStatus();
        const auto found =
            std::lower_bound(rows.keys.begin(), rows.keys.end(), key);
        if (found == rows.keys.end() || *found != key) return absl::OkStatus();
        const size_t place = found - rows.keys.begin();
        const size_t floats = rows.values.size() / rows.keys.size();
        row.exists = true;
        row.last_step = rows.last_steps[place];
        std::copy_n(rows.values.begin() + place * floats, spec.dim(),
                    row.values.begin());
        return absl::OkStatus();
      }));
  return row;
}

// Returns the first bytes of a file in the format of NumPy (NEP 1), up to the
// data.
std::string NpyHeader(const std::string& type, const std::string& shape) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                   shape, "), }");
  // Magic, version and length take ten bytes; the data are aligned to 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header;
}

}  // namespace

absl::StatusOr<std::vector<TableStatistics>> MeasureTables(
    const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables saved, OpenSaved(path));
  std::vector<TableStatistics> tables;
  for (const SparseTableSpec& spec : saved.job.sparse().table()) {
    tables.emplace_back();
    tables.back().name = spec.name();
    tables.back().dim = spec.dim();
  }
  std::vector<std::vector<int64_t>> ages(tables.size());
  TRIBUTARY_RETURN_IF_ERROR(
      VisitBuckets(saved, [&](int number, const BucketRows& rows) {
        TableStatistics& table = tables[number];
        table.candidates += static_cast<int64_t>(rows.candidates.size());
        table.bytes += static_cast<int64_t>(rows.values.size() * sizeof(float));
        const size_t floats =
            rows.keys.empty() ? 0 : rows.values.size() / rows.keys.size();
        for (size_t row = 0; row < rows.keys.size(); ++row) {
          double squares = 0;
          for (int i = 0; i < table.dim; ++i) {
            const double value = rows.values[row * floats + i];
            squares += value * value;
          }
          ++table.rows;
          table.mean_norm += std::sqrt(squares);
          table.largest_norm = std::max(table.largest_norm, std::sqrt(squares));
          ages[number].push_back(saved.manifest.version() - 1 -
                                 rows.last_steps[row]);
        }
        return absl::OkStatus();
      }));
  for (size_t number = 0; number < tables.size(); ++number) {
    if (tables[number].rows == 0) continue;
    std::vector<int64_t>& of = ages[number];
    tables[number].mean_norm /= static_cast<double>(tables[number].rows);
    std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
    tables[number].median_age = of[of.size() / 2];
    tables[number].oldest_age = *std::max_element(of.begin(), of.end());
  }
  return tables;
}

absl::StatusOr<SavedRow> LookUpKey(const std::string& path,
                                   const std::string& table, uint64_t key) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables saved, OpenSaved(path));
  TRIBUTARY_ASSIGN_OR_RETURN(const int number, FindTable(saved, table));
  return LookUp(saved, number, key);
}

absl::StatusOr<SavedRow> LookUpText(const std::string& path,
                                    const std::string& feature,
                                    const std::string& text) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables saved, OpenSaved(path));
  std::vector<std::string> names;
  for (const SparseFeatureSpec& spec : saved.job.sparse().feature()) {
    names.push_back(spec.name());
    if (spec.name() != feature) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(const int table, FindTable(saved, spec.table()));
    uint64_t key = 0;
    if (spec.integer_keys()) {
      if (!absl::SimpleAtoi(text, &key)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", text, "\" is not an unsigned number, as feature '", feature,
            "' has"));
      }
    } else {
      key = FeatureHash(spec.shared_keys() ? "" : feature).Key(text);
    }
    return LookUp(saved, table, key);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(saved.folder, ": has no feature '", feature,
                   "'; name one of: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::vector<TableDiff>> DiffTables(const std::string& a,
                                                  const std::string& b) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables first, OpenSaved(a));
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables second, OpenSaved(b));
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointDiff diff,
                             DiffCheckpoints(first.folder, second.folder));
  return std::move(diff.tables);
}

absl::StatusOr<ExportedTable> ExportTable(const std::string& path,
                                          std::string table,
                                          std::string folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SavedTables saved, OpenSaved(path));
  TRIBUTARY_ASSIGN_OR_RETURN(const int wanted, FindTable(saved, table));
  const SparseTableSpec& spec = saved.job.sparse().table(wanted);
  ExportedTable exported;
  exported.folder = folder.empty() ? spec.name() : std::move(folder);
  // The header needs the number of rows.
  TRIBUTARY_RETURN_IF_ERROR(
      VisitBuckets(saved, [&](int number, const BucketRows& rows) {
        if (number == wanted) {
          exported.rows += static_cast<int64_t>(rows.keys.size());
        }
        return absl::OkStatus();
      }));
  FileSystem* const files = FileSystem::Posix();
  TRIBUTARY_RETURN_IF_ERROR(files->MakeFolder(exported.folder));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<WritableFile> keys,
      files->Create(absl::StrCat(exported.folder, "/keys.npy")));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<WritableFile> values,
      files->Create(absl::StrCat(exported.folder, "/values.npy")));
  TRIBUTARY_RETURN_IF_ERROR(
      keys->Append(NpyHeader("<u8", absl::StrCat(exported.rows, ","))));
  TRIBUTARY_RETURN_IF_ERROR(values->Append(
      NpyHeader("<f4", absl::StrCat(exported.rows, ", ", spec.dim()))));
  TRIBUTARY_RETURN_IF_ERROR(VisitBuckets(
      saved, [&](int number, const BucketRows& rows) -> absl::Status {
        if (number != wanted || rows.keys.empty()) return absl::OkStatus();
        TRIBUTARY_RETURN_IF_ERROR(
            keys->Append({reinterpret_cast<const char*>(rows.keys.data()),
                          rows.keys.size() * sizeof(uint64_t)}));
        const size_t floats = rows.values.size() / rows.keys.size();
        for (size_t row = 0; row < rows.keys.size(); ++row) {
          TRIBUTARY_RETURN_IF_ERROR(values->Append(
              {reinterpret_cast<const char*>(rows.values.data() + row * floats),
               spec.dim() * sizeof(float)}));
        }
        return absl::OkStatus();
      }));
  TRIBUTARY_RETURN_IF_ERROR(keys->Close());
  TRIBUTARY_RETURN_IF_ERROR(values->Close());
  return exported;
}

}  // namespace tributary
