// JPEG and PNG files.
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/images/decode_picture.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes) {
  for (const int64_t channels : {1, 3}) {
    const auto picture = DecodePicture(bytes, channels);
    if (!picture.ok()) continue;
    TRIBUTARY_FUZZ_CHECK(picture->channels == channels);
    TRIBUTARY_FUZZ_CHECK(picture->height > 0 && picture->width > 0);
    TRIBUTARY_FUZZ_CHECK(picture->height * picture->width * channels ==
                         static_cast<int64_t>(picture->pixels.size()));
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
