#include "server/checkpoint/manifest.h"

#include <google/protobuf/util/json_util.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

constexpr int kFormat = 1;
// A digest of 22 characters for each block of 4 MiB: enough for 20 TB.
constexpr int64_t kMaxManifestBytes = int64_t{128} << 20;

constexpr absl::string_view kBeforeDigest = "{\"xxh3_128\": \"";
constexpr absl::string_view kBeforeManifest = "\",\n\"manifest\": ";
constexpr absl::string_view kEnd = "}\n";
constexpr size_t kDigestDigits = 32;

std::string Xxh3Of128Bits(absl::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16),
                      absl::Hex(hash.low64, absl::kZeroPad16));
}

// A name in the folder itself.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() < 256 && name[0] != '.' &&
         !absl::StrContains(name, '/') && !absl::StrContains(name, '\0');
}

absl::Status Check(const CheckpointManifest& manifest) {
  const auto error = [](const auto&... what) {
    return absl::DataLossError(absl::StrCat(what...));
  };
  if (manifest.format() != kFormat) {
    return error("format ", manifest.format(), "; this release reads ",
                 kFormat);
  }
  if (manifest.step() < 0 || manifest.version() < 0 ||
      manifest.version() > manifest.step()) {
    return error("step ", manifest.step(), ", version ", manifest.version());
  }
  if (manifest.servers() < 1 || manifest.servers() > 65536) {
    return error(manifest.servers(), " servers");
  }
  std::set<std::string> names;
  for (const CheckpointFile& file : manifest.file()) {
    if (!IsPlainName(file.name()) || !names.insert(file.name()).second) {
      return error("the name of file ", names.size(), " is no good");
    }
    if (file.bytes() < 0 || file.block_bytes() < 1 ||
        file.bytes() / file.block_bytes() +
                (file.bytes() % file.block_bytes() != 0) !=
            file.block_digest_size()) {
      return error(file.name(), ": ", file.block_digest_size(), " digests of ",
                   file.block_bytes(), " bytes each do not cover ",
                   file.bytes());
    }
  }
  return absl::OkStatus();
}

}  // namespace

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
    return absl::DataLossError("offset 0: does not begin as a manifest does");
  }
  const absl::string_view digest = rest.substr(0, kDigestDigits);
  rest.remove_prefix(kDigestDigits);
  if (!absl::ConsumePrefix(&rest, kBeforeManifest) ||
      !absl::ConsumeSuffix(&rest, kEnd)) {
    return absl::DataLossError(
        absl::StrCat("is not whole: it has ", text.size(), " bytes"));
  }
  if (Xxh3Of128Bits(rest) != digest) {
    return absl::DataLossError(
        absl::StrCat("bytes ", text.size() - rest.size() - kEnd.size(), " to ",
                     text.size() - kEnd.size(),
                     " do not have the digest that stands before them"));
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
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxManifestBytes));
  absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", manifest.status().message()));
  }
  return manifest;
}

}  // namespace tributary
