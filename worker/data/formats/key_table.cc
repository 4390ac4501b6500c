#include "worker/data/formats/key_table.h"

#include "common/base/status_macros.h"

namespace tributary {

KeyTable::KeyTable(const FeatureReader& reader) {
  for (size_t i = 0; i < reader.size(); ++i) {
    const bool one_key = reader.HasOneKey(i);
    places_.push_back({one_key, one_key ? keys_per_row_++ : several_.size()});
    if (!one_key) several_.emplace_back();
  }
}

void KeyTable::Reserve(int64_t rows) {
  keys_.reserve(static_cast<size_t>(rows) * keys_per_row_);
}

absl::Status KeyTable::AppendRow(const FeatureReader& reader,
                                 absl::Span<const absl::string_view> texts) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].one_key) {
      TRIBUTARY_RETURN_IF_ERROR(reader.AppendKeys(i, texts, &keys_));
      continue;
    }
    Several& several = several_[places_[i].index];
    TRIBUTARY_RETURN_IF_ERROR(reader.AppendKeys(i, texts, &several.keys));
    several.ends.push_back(static_cast<int64_t>(several.keys.size()));
  }
  return absl::OkStatus();
}

absl::Span<const uint64_t> KeyTable::Keys(int64_t row, size_t feature) const {
  const Place& place = places_[feature];
  const auto at = static_cast<size_t>(row);
  if (place.one_key) return {&keys_[at * keys_per_row_ + place.index], 1};
  const Several& several = several_[place.index];
  const auto begin = static_cast<size_t>(at == 0 ? 0 : several.ends[at - 1]);
  const auto end = static_cast<size_t>(several.ends[at]);
  return absl::MakeConstSpan(several.keys).subspan(begin, end - begin);
}

}  // namespace tributary
