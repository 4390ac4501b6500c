// NumPy arrays, CIFAR's binary files and IDX files of pictures, and what is
// stored with a model of pictures.
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/images/picture_encoding.h"
#include "worker/data/images/raw_formats.h"

namespace tributary {
namespace {

void Check(const absl::StatusOr<RawLayout>& layout, absl::string_view bytes) {
  if (!layout.ok()) return;
  TRIBUTARY_FUZZ_CHECK(layout->count > 0 && layout->first >= 0);
  TRIBUTARY_FUZZ_CHECK(layout->first + (layout->count - 1) * layout->stride +
                           layout->height * layout->width * layout->channels <=
                       static_cast<int64_t>(bytes.size()));
}

void Run(absl::string_view bytes) {
  Check(ParseNpyPictures(bytes, "file"), bytes);
  Check(ParseIdxPictures(bytes, "file"), bytes);
  Check(ParseCifar(bytes, /*fine=*/false, "file"), bytes);
  Check(ParseCifar(bytes, /*fine=*/true, "file"), bytes);
  (void)PictureEncoding::FromJson(bytes);
  for (const auto& labels :
       {ParseNpyLabels(bytes, "file"), ParseIdxPictureLabels(bytes, "file")}) {
    if (!labels.ok()) continue;
    for (const int64_t label : *labels) TRIBUTARY_FUZZ_CHECK(label >= 0);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
