#include "server/checkpoint/table_files.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/sparse/row_rule.h"
#include "google/protobuf/text_format.h"
#include "server/checkpoint/digesting_file.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {
namespace {

constexpr absl::string_view kMagic = "tributary-rows-1";
// Added to the number of the table in records of the second kind.
constexpr uint32_t kBefore = uint32_t{1} << 31;

struct RecordHeader {
  uint32_t table = 0;
  uint32_t bucket = 0;  // In records of the second kind, the age.
  uint64_t rows = 0;
  uint64_t candidates = 0;
};

struct CandidateRecord {
  uint64_t key = 0;
  uint64_t steps = 0;
  uint64_t last_step = 0;
};

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

absl::Status WriteHeader(const RecordHeader& header, DigestingFile* file) {
  static_assert(sizeof(RecordHeader) == 24);
  return file->Append({reinterpret_cast<const char*>(&header), sizeof(header)});
}

absl::Status WriteRecord(uint32_t table, const BucketRows& rows,
                         DigestingFile* file) {
  TRIBUTARY_RETURN_IF_ERROR(
      WriteHeader({table, static_cast<uint32_t>(rows.bucket), rows.keys.size(),
                   rows.candidates.size()},
                  file));
  TRIBUTARY_RETURN_IF_ERROR(file->Append(BytesOf(rows.keys)));
  TRIBUTARY_RETURN_IF_ERROR(file->Append(BytesOf(rows.last_steps)));
  TRIBUTARY_RETURN_IF_ERROR(file->Append(BytesOf(rows.values)));
  std::vector<CandidateRecord> candidates;
  candidates.reserve(rows.candidates.size());
  for (const auto& candidate : rows.candidates) {
    candidates.push_back({candidate.key, static_cast<uint64_t>(candidate.steps),
                          candidate.last_step});
  }
  return file->Append(BytesOf(candidates));
}

absl::Status WriteRecord(uint32_t table, const SparseTable::StepBefore& before,
                         DigestingFile* file) {
  TRIBUTARY_RETURN_IF_ERROR(
      WriteHeader({table + kBefore, static_cast<uint32_t>(before.age),
                   before.keys.size(), 0},
                  file));
  TRIBUTARY_RETURN_IF_ERROR(file->Append(BytesOf(before.keys)));
  TRIBUTARY_RETURN_IF_ERROR(file->Append(BytesOf(before.existed)));
  return file->Append(BytesOf(before.values));
}

// How many numbers a row of a table has: its values, and its state.
struct RowFloats {
  uint64_t values = 0;
  uint64_t state = 0;
};

absl::StatusOr<std::vector<RowFloats>> RowFloatsOf(const SparseSpec& sparse) {
  std::vector<RowFloats> floats;
  for (const SparseTableSpec& table : sparse.table()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const RowRule rule, RowRule::Create(table));
    floats.push_back({static_cast<uint64_t>(table.dim()),
                      static_cast<uint64_t>(rule.StateElements(table.dim()))});
  }
  return floats;
}

// Reads a file from its start to its end.
class RowsReader {
 public:
  RowsReader(VerifiedFile* file, int64_t bytes) : file_(*file), bytes_(bytes) {}

  bool done() const { return position_ == bytes_; }
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat(file_.path(), ": byte ", position_, ": ", what));
  }
  absl::Status ReadBytes(int64_t count, void* to) {
    if (count > bytes_ - position_) return Damaged("ends too early");
    TRIBUTARY_RETURN_IF_ERROR(
        file_.Read(position_, count, static_cast<char*>(to)));
    position_ += count;
    return absl::OkStatus();
  }
  // Reads `count` elements. Does not allocate memory for more than the file
  // has.
  template <typename T>
  absl::Status ReadAll(uint64_t count, std::vector<T>* to) {
    if (count > static_cast<uint64_t>(bytes_ - position_) / sizeof(T)) {
      return Damaged("ends too early");
    }
    to->resize(count);
    return ReadBytes(static_cast<int64_t>(count * sizeof(T)), to->data());
  }

 private:
  VerifiedFile& file_;
  const int64_t bytes_;
  int64_t position_ = 0;
};

absl::Status ReadRows(const RecordHeader& header, const RowFloats& floats,
                      RowsReader* reader, BucketRows* rows) {
  rows->bucket = static_cast<int>(header.bucket);
  std::vector<CandidateRecord> candidates;
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(header.rows, &rows->keys));
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(header.rows, &rows->last_steps));
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(
      header.rows * (floats.values + floats.state), &rows->values));
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(header.candidates, &candidates));
  for (const CandidateRecord& candidate : candidates) {
    rows->candidates.push_back({candidate.key,
                                static_cast<int64_t>(candidate.steps),
                                static_cast<uint32_t>(candidate.last_step)});
  }
  return absl::OkStatus();
}

absl::Status ReadBefore(const RecordHeader& header, const RowFloats& floats,
                        RowsReader* reader, SparseTable::StepBefore* before) {
  before->age = static_cast<int>(header.bucket);
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(header.rows, &before->keys));
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadAll(header.rows, &before->existed));
  return reader->ReadAll(header.rows * floats.values, &before->values);
}

absl::Status ReadRecords(
    RowsReader* reader, const std::vector<RowFloats>& floats,
    const std::function<absl::Status(int, const TableRecord&)>& visit) {
  char magic[kMagic.size()];
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadBytes(sizeof(magic), magic));
  if (absl::string_view(magic, sizeof(magic)) != kMagic) {
    return reader->Damaged("is no file of rows");
  }
  while (!reader->done()) {
    RecordHeader header;
    TRIBUTARY_RETURN_IF_ERROR(reader->ReadBytes(sizeof(header), &header));
    const bool before = header.table >= kBefore;
    const uint32_t table = header.table % kBefore;
    // Products of the sizes below do not overflow.
    if (table >= floats.size() || header.rows >= uint64_t{1} << 32 ||
        header.bucket >= uint32_t{1} << 31) {
      return reader->Damaged("has a record that no table of the job has");
    }
    TableRecord record;
    if (before) {
      TRIBUTARY_RETURN_IF_ERROR(
          ReadBefore(header, floats[table], reader,
                     &record.emplace<SparseTable::StepBefore>()));
    } else {
      TRIBUTARY_RETURN_IF_ERROR(ReadRows(header, floats[table], reader,
                                         &record.emplace<BucketRows>()));
    }
    TRIBUTARY_RETURN_IF_ERROR(visit(static_cast<int>(table), record));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<CheckpointFile> WriteTableFile(
    const std::vector<SparseTable::Contents>& tables, const std::string& name,
    const std::string& folder, FileSystem* file_system) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<WritableFile> created,
      file_system->Create(absl::StrCat(folder, "/", name)));
  DigestingFile file(std::move(created), name);
  TRIBUTARY_RETURN_IF_ERROR(file.Append(kMagic));
  for (size_t table = 0; table < tables.size(); ++table) {
    for (const BucketRows& rows : tables[table].buckets) {
      TRIBUTARY_RETURN_IF_ERROR(
          WriteRecord(static_cast<uint32_t>(table), rows, &file));
    }
    for (const SparseTable::StepBefore& before : tables[table].before) {
      TRIBUTARY_RETURN_IF_ERROR(
          WriteRecord(static_cast<uint32_t>(table), before, &file));
    }
  }
  return file.Finish();
}

absl::Status ReadTableFiles(
    const std::string& folder, const CheckpointManifest& manifest,
    const SparseSpec& sparse,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckTables(folder, JobOf(manifest).sparse(), sparse));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<RowFloats> floats,
                             RowFloatsOf(sparse));
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    const std::string name = TableFileName(shard, manifest.servers());
    TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointFile* const facts,
                               FindFile(folder, manifest, name));
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> file,
                               VerifiedFile::Open(folder, *facts));
    RowsReader reader(file.get(), facts->bytes());
    TRIBUTARY_RETURN_IF_ERROR(ReadRecords(&reader, floats, visit));
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
      tables->table(key.first)->Restore(step);
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
