#include "server/checkpoint/final_tables.h"

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/table_files.h"
#include "server/checkpoint/table_record_reader.h"

namespace tributary {
namespace {

constexpr absl::string_view kRowsSuffix = ".rows";

std::vector<CheckpointFile> FilesOf(const CheckpointManifest& manifest) {
  std::vector<CheckpointFile> files;
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    for (const CheckpointFile* const file : TableFilesOf(shard, manifest)) {
      files.push_back(*file);
    }
  }
  return files;
}

void RemoveRows(const std::string& folder, FileSystem* files) {
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kRowsSuffix)) continue;
    (void)files->Remove(absl::StrCat(folder, "/", name));
  }
}

absl::Status LinkAll(const std::string& from,
                     const std::vector<CheckpointFile>& rows,
                     const std::string& to, FileSystem* files) {
  for (const CheckpointFile& file : rows) {
    TRIBUTARY_RETURN_IF_ERROR(files->Link(absl::StrCat(from, "/", file.name()),
                                          absl::StrCat(to, "/", file.name())));
  }
  return files->SyncFolder(to);
}

absl::StatusOr<CheckpointFile> MergeAll(const std::string& from,
                                        const CheckpointManifest& manifest,
                                        const std::vector<CheckpointFile>& rows,
                                        const std::string& to,
                                        FileSystem* files) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<RowFloats> floats,
                             RowFloatsOf(JobOf(manifest).sparse()));
  // The servers have different buckets, so the files of all can be merged like
  // those of one.
  std::vector<std::unique_ptr<TableRecordReader>> readers;
  for (const CheckpointFile& file : rows) {
    TRIBUTARY_ASSIGN_OR_RETURN(readers.emplace_back(),
                               TableRecordReader::Open(from, file, floats));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      TableRecordWriter writer,
      TableRecordWriter::Create(
          to, TableFileName(/*shard=*/0, /*servers=*/1, /*part=*/0), files));
  TRIBUTARY_RETURN_IF_ERROR(
      MergeParts(readers, floats, [&](int table, const TableRecord& record) {
        // Nothing reads the versions before the last one.
        const auto* const bucket = std::get_if<BucketRows>(&record);
        return bucket == nullptr ? absl::OkStatus()
                                 : writer.Write(table, *bucket);
      }));
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointFile merged, writer.Finish());
  TRIBUTARY_RETURN_IF_ERROR(files->SyncFolder(to));
  return merged;
}

}  // namespace

absl::StatusOr<std::vector<CheckpointFile>> WriteFinalTables(
    const std::string& from, const CheckpointManifest& manifest,
    const std::string& to, FileSystem* files) {
  std::vector<CheckpointFile> rows = FilesOf(manifest);
  if (from == to) return rows;
  RemoveRows(to, files);
  if (manifest.servers() == 1) {
    if (LinkAll(from, rows, to, files).ok()) return rows;
    RemoveRows(to, files);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointFile merged,
                             MergeAll(from, manifest, rows, to, files));
  return std::vector<CheckpointFile>{std::move(merged)};
}

absl::StatusOr<std::string> FindSavedTables(const std::string& path) {
  if (PathExists(absl::StrCat(path, "/", kManifestName))) return path;
  const std::string final_folder = FinalFolder(path);
  if (PathExists(absl::StrCat(final_folder, "/", kManifestName))) {
    TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                               ReadManifest(final_folder));
    if (manifest.tables()) return final_folder;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(CheckpointsFolder(path)));
  if (!checkpoints.empty()) return checkpoints.front().path;
  return absl::NotFoundError(absl::StrCat(
      path,
      " is neither a checkpoint nor a run with rows of tables, in its folder "
      "final or in a checkpoint"));
}

}  // namespace tributary
