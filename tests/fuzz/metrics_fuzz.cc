// Lines of metrics.jsonl, as the dashboard reads them. Input: the file.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "common/os/untrusted_folder.h"
#include "deploy/tools/dashboard/metrics_index.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

constexpr char kName[] = "metrics.jsonl";

std::string Folder() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return folder == nullptr ? "/tmp" : folder;
}

void Run(const std::string& bytes) {
  static const auto* const path = new std::string(Folder() + "/" + kName);
  const auto open = [] { return UntrustedFolder(Folder()).Open(kName); };
  // In two parts, as if the file grew.
  const size_t half = bytes.size() / 2;
  {
    std::ofstream(*path, std::ios::binary | std::ios::trunc)
        << bytes.substr(0, half);
  }
  MetricsIndex index(open);
  index.Update();
  const size_t before = index.lines().size();
  {
    std::ofstream(*path, std::ios::binary | std::ios::app)
        << bytes.substr(half);
  }
  index.Update();
  TRIBUTARY_FUZZ_CHECK(index.lines().size() >= before);
  MetricsIndex whole(open);
  whole.Update();
  TRIBUTARY_FUZZ_CHECK(index.lines().size() == whole.lines().size());
  for (const MetricsIndex::Line& line : whole.lines()) {
    TRIBUTARY_FUZZ_CHECK(line.step >= 0);
    const std::string text = whole.Read({&line}).at(0);
    TRIBUTARY_FUZZ_CHECK(static_cast<int64_t>(text.size()) == line.bytes);
    TRIBUTARY_FUZZ_CHECK(text.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
