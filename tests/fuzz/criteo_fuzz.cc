// Lines of Criteo's data sets and their keys. Input: a byte that chooses the
// options of the features, and the lines.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/formats/criteo_format.h"
#include "worker/data/formats/feature_reader.h"

namespace tributary {
namespace {

FeatureReader Reader(uint8_t choice) {
  SparseSpec spec;
  spec.add_table()->set_name("t");
  SparseFeatureSpec* const feature = spec.add_feature();
  feature->set_table("t");
  feature->set_column("C1");
  feature->set_integer_keys((choice & 1) != 0);
  if ((choice & 2) != 0) feature->set_separator("|");
  SparseFeatureSpec* const cross = spec.add_feature();
  cross->set_table("t");
  cross->add_cross("I1");
  cross->add_cross("C26");
  cross->set_shared_keys((choice & 4) != 0);
  auto reader = FeatureReader::Create(spec, FindCriteoColumn);
  TRIBUTARY_FUZZ_CHECK(reader.ok());
  return *std::move(reader);
}

void Run(absl::string_view bytes, uint8_t choice) {
  const FeatureReader reader = Reader(choice);
  for (const absl::string_view line : absl::StrSplit(bytes, '\n')) {
    CriteoLine parsed;
    if (!ParseCriteoLine(line, &parsed).ok()) continue;
    TRIBUTARY_FUZZ_CHECK(parsed.label == 0 || parsed.label == 1);
    for (const float feature : parsed.features) {
      TRIBUTARY_FUZZ_CHECK(std::isfinite(feature) && feature >= 0);
    }
    std::vector<absl::string_view> texts;
    for (const int64_t column : reader.columns()) {
      texts.push_back(parsed.texts[static_cast<size_t>(column)]);
    }
    for (size_t i = 0; i < reader.size(); ++i) {
      std::vector<uint64_t> keys;
      const bool ok = reader.AppendKeys(i, texts, &keys).ok();
      if (ok && reader.HasOneKey(i)) TRIBUTARY_FUZZ_CHECK(keys.size() == 1);
    }
  }
  (void)FindCriteoColumn("field", std::string(bytes.substr(0, 8)));
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}
