#include "server/checkpoint/table_record_reader.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/sparse/row_rule.h"

namespace tributary {
namespace {

constexpr absl::string_view kRowsMagic = "tributary-rows-1";
// Added to the number of the table in records of the second kind.
constexpr uint32_t kBefore = uint32_t{1} << 31;

struct RecordHeader {
  uint32_t table = 0;
  uint32_t bucket = 0;  // In records of the second kind, the age.
  uint64_t rows = 0;
  uint64_t candidates = 0;
  uint64_t removed = 0;
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
  static_assert(sizeof(RecordHeader) == 32);
  return file->Append({reinterpret_cast<const char*>(&header), sizeof(header)});
}

}  // namespace

absl::StatusOr<std::vector<RowFloats>> RowFloatsOf(const SparseSpec& sparse) {
  std::vector<RowFloats> floats;
  for (const SparseTableSpec& table : sparse.table()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const RowRule rule, RowRule::Create(table));
    floats.push_back({static_cast<uint64_t>(table.dim()),
                      static_cast<uint64_t>(rule.StateElements(table.dim()))});
  }
  return floats;
}

absl::StatusOr<TableRecordWriter> TableRecordWriter::Create(
    const std::string& folder, const std::string& name,
    FileSystem* file_system) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<WritableFile> created,
      file_system->Create(absl::StrCat(folder, "/", name)));
  auto file = std::make_unique<DigestingFile>(std::move(created), name);
  TRIBUTARY_RETURN_IF_ERROR(file->Append(kRowsMagic));
  return TableRecordWriter(std::move(file));
}

absl::Status TableRecordWriter::Write(int table, const BucketRows& rows) {
  TRIBUTARY_RETURN_IF_ERROR(WriteHeader(
      {static_cast<uint32_t>(table), static_cast<uint32_t>(rows.bucket),
       rows.keys.size(), rows.candidates.size(), rows.removed.size()},
      file_.get()));
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(rows.keys)));
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(rows.last_steps)));
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(rows.values)));
  std::vector<CandidateRecord> candidates;
  candidates.reserve(rows.candidates.size());
  for (const auto& candidate : rows.candidates) {
    candidates.push_back({candidate.key, static_cast<uint64_t>(candidate.steps),
                          candidate.last_step});
  }
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(candidates)));
  return file_->Append(BytesOf(rows.removed));
}

absl::Status TableRecordWriter::Write(int table,
                                      const SparseTable::StepBefore& before) {
  TRIBUTARY_RETURN_IF_ERROR(
      WriteHeader({static_cast<uint32_t>(table) + kBefore,
                   static_cast<uint32_t>(before.age), before.keys.size(), 0, 0},
                  file_.get()));
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(before.keys)));
  TRIBUTARY_RETURN_IF_ERROR(file_->Append(BytesOf(before.existed)));
  return file_->Append(BytesOf(before.values));
}

absl::StatusOr<CheckpointFile> TableRecordWriter::Finish() {
  return file_->Finish();
}

absl::StatusOr<std::unique_ptr<TableRecordReader>> TableRecordReader::Open(
    const std::string& folder, const CheckpointFile& facts,
    std::vector<RowFloats> floats) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<VerifiedFile> file,
                             VerifiedFile::Open(folder, facts));
  auto reader = std::unique_ptr<TableRecordReader>(
      new TableRecordReader(std::move(file), facts.bytes(), std::move(floats)));
  char magic[kRowsMagic.size()];
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadBytes(sizeof(magic), magic));
  if (absl::string_view(magic, sizeof(magic)) != kRowsMagic) {
    return reader->Damaged("is no file of rows");
  }
  TRIBUTARY_RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

absl::Status TableRecordReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(file_->path(), ": byte ", position_, ": ", what));
}

absl::Status TableRecordReader::ReadBytes(int64_t count, void* to) {
  if (count > bytes_ - position_) return Damaged("ends too early");
  TRIBUTARY_RETURN_IF_ERROR(
      file_->Read(position_, count, static_cast<char*>(to)));
  position_ += count;
  return absl::OkStatus();
}

template <typename T>
absl::Status TableRecordReader::ReadAll(uint64_t count, std::vector<T>* to) {
  if (count > static_cast<uint64_t>(bytes_ - position_) / sizeof(T)) {
    return Damaged("ends too early");
  }
  to->resize(count);
  return ReadBytes(static_cast<int64_t>(count * sizeof(T)), to->data());
}

absl::Status TableRecordReader::ReadHeader() {
  if (position_ == bytes_) {
    next_ = std::nullopt;
    return absl::OkStatus();
  }
  RecordHeader header;
  TRIBUTARY_RETURN_IF_ERROR(ReadBytes(sizeof(header), &header));
  const uint32_t table = header.table % kBefore;
  // Products of the sizes below do not overflow.
  if (table >= floats_.size() || header.rows >= uint64_t{1} << 32 ||
      header.bucket >= uint32_t{1} << 31) {
    return Damaged("has a record that no table of the job has");
  }
  const Place place = {static_cast<int>(table), header.table >= kBefore,
                       static_cast<int>(header.bucket)};
  if (next_.has_value() && place <= *next_) {
    return Damaged("has a record that must come before the previous one");
  }
  next_ = place;
  rows_ = header.rows;
  candidates_ = header.candidates;
  removed_ = header.removed;
  return absl::OkStatus();
}

absl::Status TableRecordReader::Read(TableRecord* record) {
  if (std::get<1>(*next_)) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadBefore(&record->emplace<SparseTable::StepBefore>()));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(ReadRows(&record->emplace<BucketRows>()));
  }
  return ReadHeader();
}

absl::Status TableRecordReader::ReadRows(BucketRows* rows) {
  const auto [table, before, bucket] = *next_;
  rows->bucket = bucket;
  std::vector<CandidateRecord> candidates;
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(rows_, &rows->keys));
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(rows_, &rows->last_steps));
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(
      rows_ * (floats_[table].values + floats_[table].state), &rows->values));
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(candidates_, &candidates));
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(removed_, &rows->removed));
  std::vector<uint64_t> keys;
  for (const CandidateRecord& candidate : candidates) {
    keys.push_back(candidate.key);
    rows->candidates.push_back({candidate.key,
                                static_cast<int64_t>(candidate.steps),
                                static_cast<uint32_t>(candidate.last_step)});
  }
  if (!AreAscending(rows->keys) || !AreAscending(keys) ||
      !AreAscending(rows->removed)) {
    return Damaged("has keys that are not ascending");
  }
  return absl::OkStatus();
}

absl::Status TableRecordReader::ReadBefore(SparseTable::StepBefore* before) {
  const auto [table, is_before, age] = *next_;
  before->age = age;
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(rows_, &before->keys));
  TRIBUTARY_RETURN_IF_ERROR(ReadAll(rows_, &before->existed));
  return ReadAll(rows_ * floats_[table].values, &before->values);
}

absl::Status MergeParts(
    const std::vector<std::unique_ptr<TableRecordReader>>& parts,
    const std::vector<RowFloats>& floats,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit) {
  while (true) {
    std::optional<TableRecordReader::Place> place;
    for (const auto& part : parts) {
      if (part->next().has_value() && (!place || *part->next() < *place)) {
        place = part->next();
      }
    }
    if (!place.has_value()) return absl::OkStatus();
    const int table = std::get<0>(*place);
    TableRecord merged;
    bool found = false;
    for (const auto& part : parts) {
      if (part->next() != place) continue;
      TableRecord record;
      TRIBUTARY_RETURN_IF_ERROR(part->Read(found ? &record : &merged));
      if (std::get<1>(*place)) {
        // Earlier values belong to the version of their part.
        found = part == parts.back();
      } else if (found) {
        ApplyChanges(std::get<BucketRows>(record), floats[table].all(),
                     &std::get<BucketRows>(merged));
      } else {
        found = true;
        std::get<BucketRows>(merged).removed.clear();
      }
    }
    if (found) TRIBUTARY_RETURN_IF_ERROR(visit(table, merged));
  }
}

}  // namespace tributary
