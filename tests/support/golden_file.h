// Reads the small safetensors files that tests compare with.
#ifndef TRIBUTARY_TESTS_SUPPORT_GOLDEN_FILE_H_
#define TRIBUTARY_TESTS_SUPPORT_GOLDEN_FILE_H_

#include <map>
#include <string>
#include <vector>

namespace tributary {

struct GoldenFile {
  std::map<std::string, std::string> metadata;
  // By name; F32, F64 and I32 are all exact in double.
  std::map<std::string, std::vector<double>> tensors;

  // Both end the test program if there is no such entry.
  const std::string& Text(const std::string& key) const;
  const std::vector<double>& Tensor(const std::string& name) const;
};

// `path` is relative to the repository's root. Ends the test program with a
// message if the file cannot be read.
GoldenFile ReadGoldenFile(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_GOLDEN_FILE_H_
