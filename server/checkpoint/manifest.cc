#include "server/checkpoint/manifest.h"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/parameters/arena_layout.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

constexpr int kFormat = 1;
// One digest of 22 characters for each block of 4 MiB: enough for 20 TB.
constexpr int64_t kMaxManifestBytes = int64_t{128} << 20;
// A reader holds one block in memory, so this bounds its memory.
constexpr int64_t kMaxBlockBytes = int64_t{64} << 20;
// Largest number of servers: far above any real deployment. Server numbers in
// file names have five digits.
constexpr int kMaxServers = 65536;
constexpr int kMaxStateArrays = 16;
constexpr size_t kMaxStateNameBytes = 64;

constexpr absl::string_view kBeforeDigest = "{\"xxh3_128\": \"";
constexpr absl::string_view kBeforeManifest = "\",\n\"manifest\": ";
constexpr absl::string_view kEnd = "}\n";
constexpr size_t kDigestDigits = 32;

std::string Xxh3Of128Bits(absl::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16),
                      absl::Hex(hash.low64, absl::kZeroPad16));
}

template <typename... Args>
absl::Status Error(const Args&... what) {
  return absl::DataLossError(absl::StrCat(what...));
}

std::string FileName(const char* kind, int shard, int servers) {
  return servers == 1 ? absl::StrCat(kind, ".safetensors")
                      : absl::StrFormat("%s-%05d-of-%05d.safetensors", kind,
                                        shard + 1, servers);
}

// Checks that the names of the optimizer's state arrays are distinct and usable
// as suffixes of tensor names.
absl::Status CheckState(const CheckpointManifest& manifest) {
  if (manifest.state_size() > kMaxStateArrays) {
    return Error(manifest.state_size(), " state arrays, at most ",
                 kMaxStateArrays, " are allowed");
  }
  std::set<absl::string_view> names;
  for (const std::string& name : manifest.state()) {
    if (name.empty() || name.size() > kMaxStateNameBytes ||
        !std::all_of(name.begin(), name.end(), absl::ascii_isgraph) ||
        !names.insert(name).second) {
      return Error("a state array has the name \"",
                   absl::CHexEscape(name.substr(0, 64)),
                   "\", which is invalid or listed twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const CheckpointFile& file) {
  if (file.bytes() < 0 || file.block_bytes() < 1 ||
      file.bytes() / file.block_bytes() +
              (file.bytes() % file.block_bytes() != 0) !=
          file.block_digest_size()) {
    return Error(file.name(), ": ", file.block_digest_size(), " digests of ",
                 file.block_bytes(), " bytes each do not cover ", file.bytes());
  }
  if (file.block_bytes() > kMaxBlockBytes) {
    return Error(file.name(), ": blocks of ", file.block_bytes(),
                 " bytes, at most ", kMaxBlockBytes, " are allowed");
  }
  return absl::OkStatus();
}

// Adds the names of the listed files with changes of rows.
void AddTableParts(const CheckpointManifest& manifest,
                   std::set<std::string>* names) {
  std::set<absl::string_view> listed;
  for (const CheckpointFile& file : manifest.file()) listed.insert(file.name());
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    for (int part = 1;; ++part) {
      std::string name = TableFileName(shard, manifest.servers(), part);
      if (listed.count(name) == 0) break;
      names->insert(std::move(name));
    }
  }
}

// Checks that there is each file of each server once, and that the files are
// large enough for the model.
absl::Status CheckFiles(const CheckpointManifest& manifest,
                        const ArenaLayout& layout) {
  std::set<std::string> missing;
  const bool has_state = manifest.state_size() > 0;
  for (int shard = 0; shard < manifest.servers(); ++shard) {
    ShardFileNames names =
        ShardFileNamesOf(shard, manifest.servers(), has_state);
    missing.insert(std::move(names.model));
    if (has_state) missing.insert(std::move(names.optimizer));
    if (manifest.tables()) {
      missing.insert(TableFileName(shard, manifest.servers(), /*part=*/0));
    }
  }
  if (manifest.tables()) AddTableParts(manifest, &missing);
  const auto expected = static_cast<int64_t>(missing.size());
  if (manifest.file_size() != expected) {
    return Error(Counted(manifest.servers(), "server has", "servers have"), " ",
                 Counted(expected, "file"), ", not ", manifest.file_size());
  }
  double bytes = 0;
  for (const CheckpointFile& file : manifest.file()) {
    if (missing.erase(file.name()) == 0) {
      return Error("no server's file is called \"",
                   absl::CHexEscape(file.name().substr(0, 64)),
                   "\", or it is listed twice");
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckBlocks(file));
    bytes += static_cast<double>(file.bytes());
  }
  const double floats = static_cast<double>(layout.parameter_count()) *
                        (1 + manifest.state_size());
  if (bytes < floats * sizeof(float)) {
    return Error("files of ", bytes, " bytes cannot hold ", floats, " numbers");
  }
  return absl::OkStatus();
}

absl::Status Check(const CheckpointManifest& manifest) {
  if (manifest.format() != kFormat) {
    return Error("format ", manifest.format(), "; this release reads ",
                 kFormat);
  }
  if (manifest.step() < 0 || manifest.version() < 0 ||
      manifest.version() > manifest.step()) {
    return Error("step ", manifest.step(), ", version ", manifest.version(),
                 ": expected 0 <= version <= step");
  }
  if (manifest.servers() < 1 || manifest.servers() > kMaxServers) {
    return Error(manifest.servers(), " servers: expected 1 to ", kMaxServers);
  }
  const absl::StatusOr<ArenaLayout> layout =
      ArenaLayout::Create(manifest.table());
  if (!layout.ok()) return Error(layout.status().message());
  if (manifest.signature() != layout->signature()) {
    return Error("the signature is not that of the parameter table");
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckState(manifest));
  return CheckFiles(manifest, *layout);
}

}  // namespace

ShardFileNames ShardFileNamesOf(int shard, int servers, bool has_state) {
  ShardFileNames names;
  names.model = FileName("model", shard, servers);
  if (has_state) names.optimizer = FileName("optimizer", shard, servers);
  return names;
}

std::string TableFileName(int shard, int servers, int part) {
  return absl::StrCat(
      servers == 1 ? "tables"
                   : absl::StrFormat("tables-%05d-of-%05d", shard + 1, servers),
      part == 0 ? "" : absl::StrCat(".", part), ".rows");
}

std::vector<const CheckpointFile*> TableFilesOf(
    int shard, const CheckpointManifest& manifest) {
  std::map<absl::string_view, const CheckpointFile*> files;
  for (const CheckpointFile& file : manifest.file()) files[file.name()] = &file;
  std::vector<const CheckpointFile*> parts;
  for (int part = 0;; ++part) {
    const auto found =
        files.find(TableFileName(shard, manifest.servers(), part));
    if (found == files.end()) return parts;
    parts.push_back(found->second);
  }
}

absl::StatusOr<const CheckpointFile*> FindFile(
    const std::string& folder, const CheckpointManifest& manifest,
    const std::string& name) {
  for (const CheckpointFile& file : manifest.file()) {
    if (file.name() == name) return &file;
  }
  return absl::DataLossError(
      absl::StrCat(folder, "/", kManifestName, ": does not name ", name));
}

absl::StatusOr<std::string> PrintManifest(const CheckpointManifest& manifest) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const auto printed =
      google::protobuf::util::MessageToJsonString(manifest, &json, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  return absl::StrCat(kBeforeDigest, Xxh3Of128Bits(json), kBeforeManifest, json,
                      kEnd);
}

absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kBeforeDigest) ||
      rest.size() < kDigestDigits) {
    return absl::DataLossError("offset 0: not a checkpoint manifest");
  }
  const absl::string_view digest = rest.substr(0, kDigestDigits);
  rest.remove_prefix(kDigestDigits);
  if (!absl::ConsumePrefix(&rest, kBeforeManifest) ||
      !absl::ConsumeSuffix(&rest, kEnd)) {
    return Error("is not whole: bytes ", kBeforeDigest.size() + kDigestDigits,
                 " to ", text.size(), " are cut off or damaged");
  }
  if (Xxh3Of128Bits(rest) != digest) {
    return absl::DataLossError(absl::StrCat(
        "bytes ", text.size() - rest.size() - kEnd.size(), " to ",
        text.size() - kEnd.size(), " do not match the digest before them"));
  }
  CheckpointManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      std::string(rest), &manifest, options);
  if (!parsed.ok()) return absl::DataLossError(parsed.ToString());
  TRIBUTARY_RETURN_IF_ERROR(Check(manifest));
  return manifest;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) {
    return errno == ENOENT
               ? absl::NotFoundError(absl::StrCat(path, ": is missing"))
               : FileError(errno, "cannot read", path);
  }
  if (!S_ISREG(facts.st_mode)) return Error(path, ": is not a regular file");
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxManifestBytes));
  absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Error(path, ": ", manifest.status().message());
  return manifest;
}

absl::Status WriteManifest(const std::string& folder,
                           const CheckpointManifest& manifest,
                           FileSystem* files) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text, PrintManifest(manifest));
  const absl::Status readable = ParseManifest(text).status();
  if (!readable.ok()) {
    return absl::InternalError(absl::StrCat(
        "the new checkpoint's manifest is invalid: ", readable.message()));
  }
  return WriteFileAtomically(absl::StrCat(folder, "/", kManifestName), {text},
                             files);
}

}  // namespace tributary
