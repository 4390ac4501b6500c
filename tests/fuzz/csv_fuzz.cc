// Tables of comma-separated numbers. Input: a byte that chooses the options,
// and the file.
#include <cmath>

#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/formats/csv_format.h"

namespace tributary {
namespace {

// One feature names its column by a number, and one by its header.
SparseSpec Features() {
  SparseSpec sparse;
  sparse.add_table()->set_name("t");
  for (const char* const column : {"0", "a"}) {
    SparseFeatureSpec* const feature = sparse.add_feature();
    feature->set_table("t");
    feature->set_column(column);
  }
  sparse.mutable_feature(1)->set_separator("|");
  return sparse;
}

void Run(absl::string_view bytes, uint8_t choice) {
  CsvOptions options;
  options.label_column = choice % 8 - 4;
  options.regression = (choice >> 3 & 1) != 0;
  options.classes = choice >> 4 & 7;
  options.columns = (choice >> 7) * 3;
  const SparseSpec sparse = Features();
  if (options.classes == 7) {
    options.sparse = &sparse;
    options.ignored_columns = {1};
    options.log_transform = true;
  }
  const auto table = ParseCsv(bytes, options, "table");
  if (!table.ok()) return;
  TRIBUTARY_FUZZ_CHECK(table->rows >= 1);
  TRIBUTARY_FUZZ_CHECK(table->features >= (options.sparse == nullptr ? 1 : 0));
  if (options.sparse != nullptr) {
    for (int64_t row = 0; row < table->rows; ++row) {
      TRIBUTARY_FUZZ_CHECK(table->keys.Keys(row, 0).size() == 1);
      TRIBUTARY_FUZZ_CHECK(table->keys.Keys(row, 1).size() <= bytes.size());
    }
  }
  TRIBUTARY_FUZZ_CHECK(static_cast<int64_t>(table->cells.size()) ==
                       table->rows * table->features);
  for (const float cell : table->cells) {
    TRIBUTARY_FUZZ_CHECK(std::isfinite(cell));
  }
  TRIBUTARY_FUZZ_CHECK(static_cast<int64_t>(options.regression
                                                ? table->values.size()
                                                : table->labels.size()) ==
                       table->rows);
  const int64_t classes =
      options.classes > 0 ? options.classes : kMaxCsvClasses;
  for (const int32_t label : table->labels) {
    TRIBUTARY_FUZZ_CHECK(label >= 0 && label < classes);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}
