// Tables of texts with labels. Input: a byte that chooses the options, and the
// file.
#include <string>

#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/text/labeled_texts.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes, uint8_t choice) {
  LabeledTextSpec spec;
  const bool pairs = (choice & 1) != 0;
  if (pairs) spec.set_second_text_column("second");
  const bool needs_labels = (choice & 2) != 0;
  const auto texts = ParseLabeledTexts(
      spec, needs_labels, (choice & 4) != 0 ? "table.tsv" : "table.csv", bytes);
  if (!texts.ok()) return;
  const size_t rows = texts->lines.size();
  TRIBUTARY_FUZZ_CHECK(rows >= 1);
  TRIBUTARY_FUZZ_CHECK(texts->texts.size() == rows);
  TRIBUTARY_FUZZ_CHECK(texts->seconds.size() == (pairs ? rows : 0));
  TRIBUTARY_FUZZ_CHECK(texts->labels.size() == rows ||
                       (!needs_labels && texts->labels.empty()));
  int64_t before = 0;
  for (const int64_t line : texts->lines) {
    TRIBUTARY_FUZZ_CHECK(line > before);
    before = line;
  }
  if (!needs_labels) return;
  const auto classes = ClassesOfTexts(*texts);
  if (!classes.ok()) return;
  const auto labels = NumberLabels(*texts, *classes);
  TRIBUTARY_FUZZ_CHECK(labels.ok() && labels->size() == rows);
  for (size_t row = 0; row < rows; ++row) {
    TRIBUTARY_FUZZ_CHECK((*classes)[(*labels)[row]] == texts->labels[row]);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}
