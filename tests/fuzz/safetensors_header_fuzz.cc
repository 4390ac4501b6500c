// The JSON header of a safetensors file. Input: two bytes, how many bytes of
// data the file has (little-endian), and the header.
#include "absl/strings/string_view.h"
#include "common/tensor_io/safetensors_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

void Run(absl::string_view text, int64_t data_bytes) {
  const auto header = ParseSafetensorsHeader(text, data_bytes);
  if (!header.ok()) return;
  int64_t end = 0;
  for (const TensorEntry& tensor : header->tensors) {
    TRIBUTARY_FUZZ_CHECK(tensor.begin == end && tensor.end >= end);
    int64_t elements = 1;
    for (const int64_t dimension : tensor.shape) {
      TRIBUTARY_FUZZ_CHECK(dimension >= 0);
      elements *= dimension;
    }
    TRIBUTARY_FUZZ_CHECK(elements <= tensor.end - tensor.begin);
    end = tensor.end;
  }
  TRIBUTARY_FUZZ_CHECK(end == data_bytes);
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 2, size - 2},
                 data[0] | data[1] << 8);
  return 0;
}
