// The manifest of a checkpoint: as it is, and as the part of it that a digest
// protects, which no fuzzer would ever guess.
#include <xxhash.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/parameters/arena_layout.h"
#include "server/checkpoint/manifest.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

std::string WithDigest(absl::string_view json) {
  const XXH128_hash_t hash = XXH3_128bits(json.data(), json.size());
  return absl::StrCat("{\"xxh3_128\": \"",
                      absl::Hex(hash.high64, absl::kZeroPad16),
                      absl::Hex(hash.low64, absl::kZeroPad16),
                      "\",\n\"manifest\": ", json, "}\n");
}

void Run(absl::string_view text) {
  const auto manifest = ParseManifest(text);
  if (!manifest.ok()) return;
  TRIBUTARY_FUZZ_CHECK(ArenaLayout::Create(manifest->table()).ok());
  for (const CheckpointFile& file : manifest->file()) {
    TRIBUTARY_FUZZ_CHECK(file.name().find('/') == std::string::npos);
    TRIBUTARY_FUZZ_CHECK(file.block_bytes() > 0 && file.bytes() >= 0);
  }
  // What was read can be written, and read again.
  const auto printed = PrintManifest(*manifest);
  TRIBUTARY_FUZZ_CHECK(printed.ok());
  const auto again = ParseManifest(*printed);
  TRIBUTARY_FUZZ_CHECK(again.ok());
  TRIBUTARY_FUZZ_CHECK(*PrintManifest(*again) == *printed);
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  tributary::Run(text);
  tributary::Run(tributary::WithDigest(text));
  return 0;
}
