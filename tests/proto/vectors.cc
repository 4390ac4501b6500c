#include "tests/proto/vectors.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tributary {

std::string HexOf(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

std::string HexOf(const float* values, int64_t count) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(values),
                        static_cast<size_t>(count) * sizeof(float)));
}

std::string FileText(const Vectors& vectors) {
  std::string text = "{";
  const char* before_list = "\n";
  for (const auto& [name, list] : vectors.items()) {
    absl::StrAppend(&text, before_list, "\"", name, "\": [");
    const char* before_vector = "\n";
    for (const Vectors& vector : list) {
      absl::StrAppend(&text, before_vector, vector.dump());
      before_vector = ",\n";
    }
    absl::StrAppend(&text, "\n]");
    before_list = ",\n";
  }
  return absl::StrCat(text, "\n}\n");
}

std::vector<VectorFile> AllVectorFiles(const std::string& testdata,
                                       const std::string& folder) {
  return {{"sampling.json", FileText(SamplingVectors(folder))},
          {"data.json", FileText(DataVectors(testdata))},
          {"models.json", FileText(ModelVectors())},
          {"tree.json", FileText(TreeVectors())},
          {"encodings.json", FileText(EncodingVectors())},
          {"messages.json", FileText(MessageVectors())},
          {"steps.json", FileText(StepVectors())},
          {"rows.json", FileText(RowVectors())}};
}

}  // namespace tributary
