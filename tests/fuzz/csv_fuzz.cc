// Tables of comma-separated numbers. Input: a byte that chooses the options,
// and the file.
#include <cmath>

#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/formats/csv_format.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes, uint8_t choice) {
  CsvOptions options;
  options.label_column = choice % 8 - 4;
  options.regression = (choice >> 3 & 1) != 0;
  options.classes = choice >> 4 & 7;
  options.columns = (choice >> 7) * 3;
  const auto table = ParseCsv(bytes, options, "table");
  if (!table.ok()) return;
  TRIBUTARY_FUZZ_CHECK(table->rows >= 1 && table->features >= 1);
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
