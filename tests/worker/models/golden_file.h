// Reads the small safetensors files with expected values.
#ifndef TRIBUTARY_TESTS_WORKER_MODELS_GOLDEN_FILE_H_
#define TRIBUTARY_TESTS_WORKER_MODELS_GOLDEN_FILE_H_

#include <map>
#include <string>
#include <vector>

namespace tributary {

struct GoldenFile {
  std::map<std::string, std::string> metadata;
  // Values of each tensor, by the tensor's name. A double represents every F32,
  // F64 and I32 exactly.
  std::map<std::string, std::vector<double>> tensors;

  // Return an entry of `metadata` or `tensors`. Abort the test program if it
  // does not exist.
  const std::string& Text(const std::string& key) const;
  const std::vector<double>& Tensor(const std::string& name) const;
};

// Reads the file at `path`, relative to the repository's root. Aborts the test
// program with a message if it cannot be read.
GoldenFile ReadGoldenFile(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_MODELS_GOLDEN_FILE_H_
