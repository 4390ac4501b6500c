#include "worker/data/formats/feature_reader.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/text/escape.h"

namespace tributary {
namespace {

// absl::SimpleAtoi accepts signs and blanks.
bool ParseUnsigned(absl::string_view text, uint64_t* value) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, value);
}

}  // namespace

absl::StatusOr<FeatureReader> FeatureReader::Create(const SparseSpec& spec,
                                                    const FindColumn& find) {
  FeatureReader reader;
  std::vector<std::vector<int64_t>> columns_of;
  for (int i = 0; i < spec.feature_size(); ++i) {
    const SparseFeatureSpec& from = spec.feature(i);
    const std::string field = absl::StrCat("sparse.feature[", i, "].");
    std::vector<int64_t> columns;
    for (int k = 0; k < from.cross_size(); ++k) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          const int64_t column,
          find(absl::StrCat(field, "cross[", k, "]"), from.cross(k)));
      columns.push_back(column);
    }
    if (columns.empty()) {
      TRIBUTARY_ASSIGN_OR_RETURN(const int64_t column,
                                 find(field + "column", from.column()));
      columns.push_back(column);
    }
    const auto table = std::find_if(
        spec.table().begin(), spec.table().end(),
        [&](const SparseTableSpec& t) { return t.name() == from.table(); });
    if (table == spec.table().end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, "table: there is no table \"", from.table(), "\""));
    }
    reader.dims_.push_back(table->dim());
    Feature feature;
    const std::string& name = from.has_name() ? from.name() : from.column();
    reader.names_.push_back(name);
    feature.hash = FeatureHash(from.shared_keys() ? "" : name);
    if (!from.separator().empty()) feature.separator = from.separator()[0];
    feature.integer_keys = from.integer_keys();
    feature.column = from.column();
    reader.features_.push_back(std::move(feature));
    reader.columns_.insert(reader.columns_.end(), columns.begin(),
                           columns.end());
    columns_of.push_back(std::move(columns));
  }
  std::vector<int64_t>& all = reader.columns_;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (size_t i = 0; i < columns_of.size(); ++i) {
    for (const int64_t column : columns_of[i]) {
      reader.features_[i].places.push_back(static_cast<size_t>(
          std::lower_bound(all.begin(), all.end(), column) - all.begin()));
    }
  }
  return reader;
}

absl::Status FeatureReader::AppendKey(const Feature& feature,
                                      absl::string_view text,
                                      std::vector<uint64_t>* keys) {
  uint64_t key = 0;
  if (!feature.integer_keys) {
    key = feature.hash.Key(text);
  } else if (!ParseUnsigned(text, &key)) {
    constexpr size_t kMaxShown = 40;
    return absl::InvalidArgumentError(absl::StrCat(
        "column ", EscapeForTerminal(feature.column), ": '",
        EscapeForTerminal(text.substr(0, kMaxShown)),
        "' is not an integer from 0 to 2^64 - 1, as integer_keys of its "
        "feature needs"));
  }
  keys->push_back(key);
  return absl::OkStatus();
}

absl::Status FeatureReader::AppendKeys(
    size_t feature, absl::Span<const absl::string_view> texts,
    std::vector<uint64_t>* keys) const {
  const Feature& from = features_[feature];
  if (from.places.size() > 1) {
    absl::InlinedVector<absl::string_view, 8> crossed;
    for (const size_t place : from.places) crossed.push_back(texts[place]);
    keys->push_back(from.hash.Key(crossed));
    return absl::OkStatus();
  }
  const absl::string_view text = texts[from.places[0]];
  if (from.separator == kNone) return AppendKey(from, text, keys);
  for (const absl::string_view piece : absl::StrSplit(text, from.separator)) {
    const absl::string_view value = absl::StripAsciiWhitespace(piece);
    if (value.empty()) continue;
    TRIBUTARY_RETURN_IF_ERROR(AppendKey(from, value, keys));
  }
  return absl::OkStatus();
}

}  // namespace tributary
