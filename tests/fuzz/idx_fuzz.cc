// Image and label files in the IDX format.
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/formats/idx_format.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes) {
  const auto images = ParseIdxImages(bytes, "images");
  if (images.ok()) {
    TRIBUTARY_FUZZ_CHECK(images->count > 0);
    TRIBUTARY_FUZZ_CHECK(images->count * images->height * images->width ==
                         static_cast<int64_t>(images->pixels.size()));
    TRIBUTARY_FUZZ_CHECK(images->pixels.end() == bytes.end());
  }
  const auto labels = ParseIdxLabels(bytes, 10, "labels");
  if (labels.ok()) {
    for (const char label : *labels) {
      TRIBUTARY_FUZZ_CHECK(label >= 0 && label < 10);
    }
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
