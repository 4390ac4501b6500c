#include "server/checkpoint/table_chain.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/sparse/key_hash.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/sort_ahead.h"
#include "server/checkpoint/table_files.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {
namespace {

// Reading parts needs memory for a block of each.
constexpr size_t kMostParts = 16;
// The beginning of the names of folders with links.
constexpr absl::string_view kLinks = "tables-";

std::string OfServers(int servers) {
  return absl::StrFormat("-of-%05d", servers);
}

}  // namespace

TableChain::~TableChain() {
  if (!folder_.empty()) RemoveLinks(folder_);
}

std::string TableChain::NewName() {
  return absl::StrCat("part-", ++names_, ".rows");
}

void TableChain::RemoveLinks(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    (void)files_->Remove(absl::StrCat(folder, "/", name));
  }
  (void)files_->Remove(folder);
}

void TableChain::RemoveLeftovers() {
  RemoveLinks(folder_);
  if (options_.shard != 0) return;
  const std::string checkpoints = FolderOf(folder_);
  const absl::StatusOr<std::vector<std::string>> names =
      ListFolder(checkpoints);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, kLinks) &&
        !absl::EndsWith(name, OfServers(options_.servers))) {
      RemoveLinks(absl::StrCat(checkpoints, "/", name));
    }
  }
}

absl::Status TableChain::LinkOrCopy(const std::string& from_folder,
                                    const CheckpointFile& facts,
                                    const std::string& to) const {
  if (files_->Link(absl::StrCat(from_folder, "/", facts.name()), to).ok()) {
    return absl::OkStatus();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> from,
                             VerifiedFile::Open(from_folder, facts));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> copy,
                             files_->Create(to));
  std::string block;
  for (int64_t at = 0; at < facts.bytes(); at += facts.block_bytes()) {
    block.resize(std::min(facts.block_bytes(), facts.bytes() - at));
    TRIBUTARY_RETURN_IF_ERROR(
        from->Read(at, static_cast<int64_t>(block.size()), block.data()));
    TRIBUTARY_RETURN_IF_ERROR(copy->Append(block));
  }
  TRIBUTARY_RETURN_IF_ERROR(copy->Sync());
  return copy->Close();
}

absl::Status TableChain::Begin(const std::string& folder) {
  folder_ = absl::StrCat(FolderOf(folder), "/", kLinks,
                         absl::StrFormat("%05d", options_.shard + 1),
                         OfServers(options_.servers));
  RemoveLeftovers();
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(folder_));
  if (!options_.manifest.has_value()) return absl::OkStatus();
  const CheckpointManifest& manifest = *options_.manifest;
  if (manifest.servers() == options_.servers) {
    for (const CheckpointFile* const part :
         TableFilesOf(options_.shard, manifest)) {
      CheckpointFile link = *part;
      link.set_name(NewName());
      TRIBUTARY_RETURN_IF_ERROR(LinkOrCopy(
          options_.checkpoint, *part, absl::StrCat(folder_, "/", link.name())));
      parts_.push_back(std::move(link));
    }
    return absl::OkStatus();
  }
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    TRIBUTARY_RETURN_IF_ERROR(ImportFrom(shard));
  }
  return absl::OkStatus();
}

absl::Status TableChain::ImportFrom(int shard) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      TableRecordWriter writer,
      TableRecordWriter::Create(folder_, NewName(), files_));
  TRIBUTARY_RETURN_IF_ERROR(ReadTableFilesOf(
      shard, options_.checkpoint, *options_.manifest, options_.sparse,
      [&](int table, const TableRecord& record) {
        const auto* const rows = std::get_if<BucketRows>(&record);
        if (rows == nullptr ||
            ServerOfBucket(rows->bucket, options_.servers) != options_.shard) {
          return absl::OkStatus();
        }
        return writer.Write(table, *rows);
      }));
  TRIBUTARY_ASSIGN_OR_RETURN(parts_.emplace_back(), writer.Finish());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointFile>> TableChain::Write(
    std::vector<SparseTable::Changes> changes, const std::string& folder) {
  for (const SparseTable::Changes& table : changes) {
    TRIBUTARY_RETURN_IF_ERROR(table.status);
  }
  if (folder_.empty() && damage_.ok()) damage_ = Begin(folder);
  if (!damage_.ok()) {
    // The next call begins with all rows.
    options_.manifest = std::nullopt;
    RemoveLinks(folder_);
    folder_.clear();
    parts_.clear();
    return std::exchange(damage_, absl::OkStatus());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<RowFloats> floats,
                             RowFloatsOf(options_.sparse));
  TRIBUTARY_ASSIGN_OR_RETURN(
      TableRecordWriter writer,
      TableRecordWriter::Create(folder_, NewName(), files_));
  SortAhead sorted(&changes, floats);
  for (size_t table = 0; table < changes.size(); ++table) {
    for (size_t i = 0; i < changes[table].buckets.size(); ++i) {
      BucketRows* const rows = sorted.Next();
      TRIBUTARY_RETURN_IF_ERROR(writer.Write(static_cast<int>(table), *rows));
      // Frees memory early.
      *rows = BucketRows();
    }
    for (const SparseTable::StepBefore& before : changes[table].before) {
      TRIBUTARY_RETURN_IF_ERROR(writer.Write(static_cast<int>(table), before));
    }
  }
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointFile added, writer.Finish());
  parts_.push_back(std::move(added));
  std::vector<CheckpointFile> linked;
  for (const CheckpointFile& part : parts_) {
    CheckpointFile link = part;
    link.set_name(TableFileName(options_.shard, options_.servers,
                                static_cast<int>(linked.size())));
    TRIBUTARY_RETURN_IF_ERROR(
        LinkOrCopy(folder_, part, absl::StrCat(folder, "/", link.name())));
    linked.push_back(std::move(link));
  }
  return linked;
}

void TableChain::Merge() {
  int64_t changes = 0;
  for (size_t part = 1; part < parts_.size(); ++part) {
    changes += parts_[part].bytes();
  }
  if (parts_.size() <= kMostParts &&
      (parts_.size() < 2 || changes <= parts_[0].bytes())) {
    return;
  }
  const std::string name = NewName();
  absl::StatusOr<CheckpointFile> merged = MergeInto(name);
  if (!merged.ok()) {
    if (absl::IsDataLoss(merged.status())) damage_ = merged.status();
    (void)files_->Remove(absl::StrCat(folder_, "/", name));
    return;
  }
  for (const CheckpointFile& part : parts_) {
    (void)files_->Remove(absl::StrCat(folder_, "/", part.name()));
  }
  parts_ = {*std::move(merged)};
}

absl::StatusOr<CheckpointFile> TableChain::MergeInto(
    const std::string& name) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<RowFloats> floats,
                             RowFloatsOf(options_.sparse));
  std::vector<std::unique_ptr<TableRecordReader>> readers;
  for (const CheckpointFile& part : parts_) {
    TRIBUTARY_ASSIGN_OR_RETURN(readers.emplace_back(),
                               TableRecordReader::Open(folder_, part, floats));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(TableRecordWriter writer,
                             TableRecordWriter::Create(folder_, name, files_));
  TRIBUTARY_RETURN_IF_ERROR(
      MergeParts(readers, floats, [&](int table, const TableRecord& record) {
        const auto* const rows = std::get_if<BucketRows>(&record);
        // Earlier values belong to their checkpoint.
        if (rows == nullptr) return absl::OkStatus();
        return writer.Write(table, *rows);
      }));
  return writer.Finish();
}

}  // namespace tributary
