// Tar archives.
#include <string>

#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/images/tar_index.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  const auto members = IndexTar(
      [&](int64_t offset, int64_t count, std::string* to) {
        TRIBUTARY_FUZZ_CHECK(offset >= 0 && count >= 0);
        TRIBUTARY_FUZZ_CHECK(count <= size && offset <= size - count);
        *to = std::string(bytes.substr(static_cast<size_t>(offset),
                                       static_cast<size_t>(count)));
        return absl::OkStatus();
      },
      size, "archive");
  if (!members.ok()) return;
  for (const TarMember& member : *members) {
    TRIBUTARY_FUZZ_CHECK(member.size >= 0 && member.offset >= 512);
    TRIBUTARY_FUZZ_CHECK(member.offset <= size - member.size);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
