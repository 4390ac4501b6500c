// The config.json of a GPT-2.
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/models/gpt2_config.h"

namespace tributary {
namespace {

void Run(absl::string_view text) {
  const auto gpt = ParseGpt2Config(text, "config.json");
  if (!gpt.ok()) return;
  TRIBUTARY_FUZZ_CHECK(gpt->layers() >= 1 && gpt->heads() >= 1);
  TRIBUTARY_FUZZ_CHECK(gpt->context() >= 1 && gpt->vocabulary() >= 1);
  TRIBUTARY_FUZZ_CHECK(gpt->width() >= 1 && gpt->width() % gpt->heads() == 0);
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
