#include "worker/data/clicks/generated_clicks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "worker/data/files/data_fingerprint.h"

namespace tributary {
namespace {

// A sample of the fingerprint.
constexpr int64_t kHashedSamples = 64;

template <typename T>
void AppendBytes(const T* values, size_t count, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

}  // namespace

GeneratedClicks::GeneratedClicks(const ClicksSpec& spec, FeatureReader reader)
    : spec_(spec), reader_(std::move(reader)), generator_(spec) {}

uint64_t GeneratedClicks::fingerprint() const {
  std::string bytes;
  for (int64_t i = 0; i < std::min(spec_.samples(), kHashedSamples); ++i) {
    const GeneratedClick click = generator_.Sample(/*held_out=*/false, i);
    AppendBytes(&click.label, 1, &bytes);
    AppendBytes(click.features.data(), click.features.size(), &bytes);
    AppendBytes(click.categories.data(), click.categories.size(), &bytes);
  }
  return DataFingerprint({bytes});
}

void GeneratedClicks::Read(
    bool held_out, int64_t index, float* numbers, int32_t* label,
    absl::Span<std::vector<uint64_t>* const> keys) const {
  const GeneratedClick click = generator_.Sample(held_out, index);
  std::copy(click.features.begin(), click.features.end(), numbers);
  *label = click.label;
  constexpr size_t kDigits = std::numeric_limits<int64_t>::digits10 + 1;
  char digits[kCriteoColumns][kDigits];
  std::array<absl::string_view, kCriteoColumns> texts;
  const std::vector<int64_t>& columns = reader_.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto at = static_cast<size_t>(columns[i]);
    const int64_t value = at <= kCriteoNumbers
                              ? click.numbers[at - 1]
                              : click.categories[at - 1 - kCriteoNumbers];
    const char* const end =
        std::to_chars(digits[i], digits[i] + kDigits, value).ptr;
    texts[i] = {digits[i], static_cast<size_t>(end - digits[i])};
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    // Cannot fail: all texts are integers.
    reader_
        .AppendKeys(i, absl::MakeConstSpan(texts).first(columns.size()),
                    keys[i])
        .IgnoreError();
  }
}

}  // namespace tributary
