// The JSON header of a safetensors file. Internal to safetensors_file.cc and
// its test.
#ifndef TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_HEADER_H_
#define TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor_io/safetensors_file.h"

namespace tributary {

struct SafetensorsHeader {
  // The tensors, in the order of their data. Together they cover the data
  // without gaps or overlaps.
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Parses and validates `json`, the header of a file that has `data_bytes` bytes
// of data after the header. Returns DataLoss, with the reason, if the header is
// invalid.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_HEADER_H_
