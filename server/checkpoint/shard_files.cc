#include "server/checkpoint/shard_files.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/tensor_io/safetensors_file.h"
#include "server/checkpoint/digesting_file.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/table_files.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {
namespace {

// Consecutive elements [begin, end) of one parameter.
struct TensorPiece {
  const Parameter* parameter = nullptr;  // Owned by the layout.
  int64_t begin = 0;
  int64_t end = 0;

  bool whole() const { return begin == 0 && end == parameter->size; }
  // Returns NAME, or NAME[BEGIN:END] if the piece is not the whole parameter.
  std::string Name() const {
    return whole() ? parameter->name
                   : absl::StrCat(parameter->name, "[", begin, ":", end, "]");
  }
};

// Returns the pieces of parameters that lie in the chunks of `shard`, in the
// order of the shard's files: by parameter name, then by position. The parts of
// a parameter in adjacent chunks form one piece. Over all shards, each element
// lies in exactly one piece.
std::vector<TensorPiece> PiecesOf(const ArenaLayout& layout, int shard,
                                  int servers) {
  std::vector<const Parameter*> sorted;
  for (const Parameter& parameter : layout.parameters()) {
    sorted.push_back(&parameter);
  }
  std::sort(
      sorted.begin(), sorted.end(),
      [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  std::vector<TensorPiece> pieces;
  for (const Parameter* parameter : sorted) {
    const int64_t end = parameter->offset + parameter->size;
    int64_t begin = parameter->offset;
    while (begin < end) {
      const int chunk = static_cast<int>(begin / layout.chunk_elements());
      const int64_t next = std::min(end, layout.ChunkBegin(chunk + 1));
      const int64_t from = begin - parameter->offset;
      const int64_t to = next - parameter->offset;
      begin = next;
      if (ArenaLayout::ShardOf(chunk, servers) != shard) continue;
      if (!pieces.empty() && pieces.back().parameter == parameter &&
          pieces.back().end == from) {
        pieces.back().end = to;
      } else {
        pieces.push_back({parameter, from, to});
      }
    }
  }
  return pieces;
}

// Finds elements of the arena in the chunks of a snapshot.
class ChunkPlaces {
 public:
  ChunkPlaces(const ArenaLayout& layout, const Snapshot& snapshot)
      : layout_(layout) {
    for (const Snapshot::Chunk& chunk : snapshot.chunks) {
      chunks_.emplace(chunk.number, &chunk);
    }
  }

  // Returns the elements from `begin` up to the end of their chunk, at most up
  // to `end`, and stores their number in `*count`. `slot` -1 selects the
  // weights. Returns null if the snapshot does not hold the chunk.
  float* Find(int64_t begin, int64_t end, int slot, int64_t* count) const {
    const int number = static_cast<int>(begin / layout_.chunk_elements());
    *count = std::min(end, layout_.ChunkBegin(number + 1)) - begin;
    const auto found = chunks_.find(number);
    if (found == chunks_.end()) return nullptr;
    const Buffer& buffer =
        slot < 0 ? found->second->values : found->second->slots[slot];
    return buffer.get() + (begin - layout_.ChunkBegin(number));
  }

 private:
  const ArenaLayout& layout_;
  std::map<int, const Snapshot::Chunk*> chunks_;
};

// The tensors of one file. Slot -1 stands for the weights.
struct FileContents {
  std::string name;
  struct Tensor {
    TensorPiece piece;
    int slot = -1;
    std::string name;
  };
  std::vector<Tensor> tensors;
};

// Returns the model file and, if there is optimizer state, the optimizer file.
std::vector<FileContents> ContentsOf(const ShardFiles& files) {
  const std::vector<TensorPiece> pieces =
      PiecesOf(*files.layout, files.shard, files.servers);
  const ShardFileNames names =
      ShardFileNamesOf(files.shard, files.servers, !files.state.empty());
  std::vector<FileContents> contents(1);
  contents[0].name = names.model;
  for (const TensorPiece& piece : pieces) {
    contents[0].tensors.push_back({piece, -1, piece.Name()});
  }
  if (files.state.empty()) return contents;
  contents.emplace_back();
  contents[1].name = names.optimizer;
  for (const TensorPiece& piece : pieces) {
    for (size_t slot = 0; slot < files.state.size(); ++slot) {
      TensorPiece named = piece;
      Parameter state = *piece.parameter;
      state.name = absl::StrCat(state.name, ".", files.state[slot]);
      named.parameter = &state;
      contents[1].tensors.push_back(
          {piece, static_cast<int>(slot), named.Name()});
    }
  }
  return contents;
}

absl::StatusOr<CheckpointFile> WriteFile(const FileContents& contents,
                                         const ChunkPlaces& places,
                                         const std::string& folder,
                                         FileSystem* file_system) {
  std::vector<NamedTensor> tensors;
  for (const FileContents::Tensor& tensor : contents.tensors) {
    const TensorPiece& piece = tensor.piece;
    tensors.push_back({tensor.name,
                       piece.whole()
                           ? piece.parameter->shape
                           : std::vector<int64_t>{piece.end - piece.begin},
                       nullptr});
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string header,
                             MakeSafetensorsHeader(tensors, {}));
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<WritableFile> created,
      file_system->Create(absl::StrCat(folder, "/", contents.name)));
  DigestingFile file(std::move(created), contents.name);
  TRIBUTARY_RETURN_IF_ERROR(file.Append(header));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S12"));
  for (const FileContents::Tensor& tensor : contents.tensors) {
    const int64_t offset = tensor.piece.parameter->offset;
    const int64_t end = offset + tensor.piece.end;
    int64_t count = 0;
    for (int64_t at = offset + tensor.piece.begin; at < end; at += count) {
      const float* const values = places.Find(at, end, tensor.slot, &count);
      if (values == nullptr) {
        return absl::InternalError(
            absl::StrCat("the snapshot lacks a chunk of ", tensor.name));
      }
      TRIBUTARY_RETURN_IF_ERROR(
          file.Append({reinterpret_cast<const char*>(values),
                       static_cast<size_t>(count) * sizeof(float)}));
    }
  }
  return file.Finish();
}

// Returns the file's entries for the tensors that it must hold, in the order of
// `contents`.
absl::StatusOr<std::vector<const TensorEntry*>> FindTensors(
    const FileContents& contents, const SafetensorsFile& file,
    const std::string& path) {
  std::map<absl::string_view, const TensorEntry*> entries;
  for (const TensorEntry& entry : file.tensors()) {
    entries.emplace(entry.name, &entry);
  }
  std::vector<const TensorEntry*> found;
  for (const FileContents::Tensor& tensor : contents.tensors) {
    const int64_t bytes = (tensor.piece.end - tensor.piece.begin) *
                          static_cast<int64_t>(sizeof(float));
    const auto entry = entries.find(tensor.name);
    if (entry == entries.end() || entry->second->dtype != "F32" ||
        entry->second->end - entry->second->begin != bytes) {
      return absl::DataLossError(absl::StrCat(
          path, ": has no tensor ", tensor.name, " of ", bytes, " bytes"));
    }
    found.push_back(entry->second);
  }
  return found;
}

// Reads from one file the elements of the chunks in `places`.
absl::Status ReadFileFor(const std::string& folder,
                         const CheckpointManifest& manifest,
                         const FileContents& contents,
                         const std::map<std::string, const Parameter*>& ours,
                         const ChunkPlaces& places) {
  struct Wanted {
    size_t tensor = 0;  // Index in `contents`.
    int64_t begin = 0;  // Offset in the piece, in elements.
    int64_t count = 0;
    float* to = nullptr;
  };
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < contents.tensors.size(); ++i) {
    const TensorPiece& piece = contents.tensors[i].piece;
    const int64_t offset = ours.at(piece.parameter->name)->offset;
    int64_t count = 0;
    for (int64_t at = piece.begin; at < piece.end; at += count) {
      float* const to = places.Find(offset + at, offset + piece.end,
                                    contents.tensors[i].slot, &count);
      if (to != nullptr) wanted.push_back({i, at - piece.begin, count, to});
    }
  }
  if (wanted.empty()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointFile* const facts,
                             FindFile(folder, manifest, contents.name));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> file,
                             VerifiedFile::Open(folder, *facts));
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile tensors,
                             file->OpenTensors());
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<const TensorEntry*> entries,
                             FindTensors(contents, tensors, file->path()));
  for (const Wanted& want : wanted) {
    TRIBUTARY_RETURN_IF_ERROR(
        file->Read(tensors.data_offset() + entries[want.tensor]->begin +
                       want.begin * static_cast<int64_t>(sizeof(float)),
                   want.count * static_cast<int64_t>(sizeof(float)),
                   reinterpret_cast<char*>(want.to)));
  }
  return absl::OkStatus();
}

// Checks that the checkpoint is of the model whose parameters are `ours`.
absl::Status CheckModel(const std::string& folder, const ArenaLayout& written,
                        const std::map<std::string, const Parameter*>& ours) {
  const auto error = [&](const auto&... what) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": is of another model: ", what...));
  };
  std::set<absl::string_view> theirs;
  for (const Parameter& parameter : written.parameters()) {
    theirs.insert(parameter.name);
    const auto found = ours.find(parameter.name);
    if (found == ours.end()) {
      return error("it has ", parameter.name, ", which this job does not have");
    }
    if (found->second->shape != parameter.shape) {
      return error(parameter.name, " is [",
                   absl::StrJoin(parameter.shape, ", "), "] there and [",
                   absl::StrJoin(found->second->shape, ", "), "] in this job");
    }
  }
  for (const auto& [name, parameter] : ours) {
    if (theirs.count(name) == 0) return error("it lacks this job's ", name);
  }
  return absl::OkStatus();
}

ShardFiles FilesOf(const CheckpointManifest& manifest,
                   const ArenaLayout& layout, int shard) {
  return {&layout,
          shard,
          manifest.servers(),
          {manifest.state().begin(), manifest.state().end()}};
}

}  // namespace

absl::StatusOr<std::vector<CheckpointFile>> WriteShardFiles(
    const ShardFiles& files, const Snapshot& snapshot,
    const std::string& folder, FileSystem* file_system) {
  const ChunkPlaces places(*files.layout, snapshot);
  std::vector<CheckpointFile> written;
  for (const FileContents& contents : ContentsOf(files)) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        CheckpointFile file, WriteFile(contents, places, folder, file_system));
    written.push_back(std::move(file));
  }
  TRIBUTARY_RETURN_IF_ERROR(file_system->SyncFolder(folder));
  return written;
}

absl::Status ReadShard(const std::string& folder,
                       const CheckpointManifest& manifest,
                       const ArenaLayout& layout, Snapshot* snapshot) {
  // The failpoint simulates an unreadable disk.
  const absl::Status readable = Failpoint("S17");
  if (!readable.ok()) return absl::DataLossError(readable.message());
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout written,
                             ArenaLayout::Create(manifest.table()));
  std::map<std::string, const Parameter*> ours;
  for (const Parameter& parameter : layout.parameters()) {
    ours.emplace(parameter.name, &parameter);
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckModel(folder, written, ours));
  snapshot->version = manifest.version();
  for (Snapshot::Chunk& chunk : snapshot->chunks) {
    if (chunk.slots.size() != static_cast<size_t>(manifest.state_size())) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder, ": is of another optimizer: it has state arrays [",
          absl::StrJoin(manifest.state(), ", "), "], this job has ",
          chunk.slots.size()));
    }
    const size_t bytes = layout.ChunkSize(chunk.number) * sizeof(float);
    std::memset(chunk.values.get(), 0, bytes);
    for (const Buffer& slot : chunk.slots) std::memset(slot.get(), 0, bytes);
  }
  const ChunkPlaces places(layout, *snapshot);
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    for (const FileContents& contents :
         ContentsOf(FilesOf(manifest, written, shard))) {
      TRIBUTARY_RETURN_IF_ERROR(
          ReadFileFor(folder, manifest, contents, ours, places));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyCheckpoint(const std::string& folder) {
  const absl::StatusOr<CheckpointManifest> read = ReadManifest(folder);
  if (absl::IsNotFound(read.status())) {
    return absl::DataLossError(read.status().message());
  }
  TRIBUTARY_RETURN_IF_ERROR(read.status());
  const CheckpointManifest& manifest = *read;
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(manifest.table()));
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    for (const FileContents& contents :
         ContentsOf(FilesOf(manifest, layout, shard))) {
      TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointFile* const facts,
                                 FindFile(folder, manifest, contents.name));
      TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> file,
                                 VerifiedFile::Open(folder, *facts));
      TRIBUTARY_RETURN_IF_ERROR(file->VerifyAll());
      TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile tensors,
                                 file->OpenTensors());
      TRIBUTARY_RETURN_IF_ERROR(
          FindTensors(contents, tensors, file->path()).status());
    }
  }
  if (manifest.tables()) {
    TRIBUTARY_RETURN_IF_ERROR(ReadTableFiles(
        folder, manifest, JobOf(manifest).sparse(),
        [](int, const TableRecord&) { return absl::OkStatus(); }));
  }
  return absl::OkStatus();
}

}  // namespace tributary
