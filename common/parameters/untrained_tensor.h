// A tensor of a model that no optimizer updates.
#ifndef TRIBUTARY_COMMON_PARAMETERS_UNTRAINED_TENSOR_H_
#define TRIBUTARY_COMMON_PARAMETERS_UNTRAINED_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tributary {

// A tensor of a model that is not in the parameter table, such as a frozen
// parameter or a counter, and that the file of the final model contains.
struct UntrainedTensor {
  std::string name;  // That no parameter and no alias has.
  // A type of the safetensors format: "F64", "F32", "F16", "BF16", "I64",
  // "I32", "I16", "I8", "U8", "BOOL" and others.
  std::string dtype;
  std::vector<int64_t> shape;  // Without elements: one value.
  std::string data;  // The bytes of the elements, little-endian, without gaps.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_UNTRAINED_TENSOR_H_
