#include "worker/data/formats/csv_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/text/escape.h"
#include "nlohmann/json.hpp"
#include "worker/data/files/data_file.h"

namespace tributary {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "tributary-csv-1";
constexpr size_t kMaxColumns = size_t{1} << 24;

absl::Status WrongEncoding(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the stored encoding of data.csv is damaged: ", what));
}

// Returns the categories of a column in the order of their bytes, or an error
// if `json` is no such list.
absl::StatusOr<std::vector<std::string>> ReadCategories(const Json& json) {
  if (!json.is_array() || json.empty()) {
    return WrongEncoding(
        "`categories` must be a list with at least one element");
  }
  std::vector<std::string> categories;
  for (const Json& value : json) {
    if (!value.is_string()) return WrongEncoding("a category must be a string");
    if (!categories.empty() && categories.back() >= value) {
      return WrongEncoding("categories must be in ascending order");
    }
    categories.push_back(value);
  }
  return categories;
}

absl::StatusOr<double> ReadNumber(const Json& column, const char* name) {
  const auto found = column.find(name);
  if (found == column.end() || !found->is_number()) {
    return WrongEncoding(
        absl::StrCat("a column needs the number `", name, "`"));
  }
  const double value = *found;
  if (!std::isfinite(value)) {
    return WrongEncoding(absl::StrCat("`", name, "` must be finite"));
  }
  return value;
}

// For each value of a column of the table, the index of its category.
absl::StatusOr<std::vector<int32_t>> Match(
    absl::string_view name, const CsvCategories& column,
    const std::vector<std::string>& categories) {
  std::vector<int32_t> indexes;
  for (size_t i = 0; i < column.values.size(); ++i) {
    const auto found = std::lower_bound(categories.begin(), categories.end(),
                                        column.values[i]);
    if (found == categories.end() || *found != column.values[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", column.first_lines[i], ": column ",
                       column.column, " (counted from 0): the category '",
                       EscapeForTerminal(column.values[i]),
                       "' does not occur in the training data, which have ",
                       categories.size(), " categories in this column"));
    }
    indexes.push_back(static_cast<int32_t>(found - categories.begin()));
  }
  return indexes;
}

}  // namespace

CsvEncoding CsvEncoding::Learn(const CsvTable& train, bool standardize) {
  CsvEncoding encoding;
  encoding.label_ = train.label;
  encoding.log_transform_ = train.log_transform;
  encoding.columns_.resize(static_cast<size_t>(train.columns));
  for (const CsvCategories& column : train.categories) {
    std::vector<std::string>& categories =
        encoding.columns_[static_cast<size_t>(column.column)].categories;
    categories = column.values;
    std::sort(categories.begin(), categories.end());
  }
  for (const int64_t column : train.left_out) {
    encoding.columns_[static_cast<size_t>(column)].left_out = true;
  }
  if (!standardize) return encoding;
  std::vector<Column*> numbers;
  for (int64_t i = 0; i < train.columns; ++i) {
    Column& column = encoding.columns_[static_cast<size_t>(i)];
    if (i != train.label && !column.left_out && column.categories.empty()) {
      numbers.push_back(&column);
    }
  }
  const auto rows = static_cast<double>(train.rows);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto for_each = [&](const auto& function) {
      for (int64_t row = 0; row < train.rows; ++row) {
        const size_t begin = static_cast<size_t>(row) * numbers.size();
        function(double{train.cells[begin + i]});
      }
    };
    double sum = 0;
    for_each([&](double value) { sum += value; });
    const double mean = sum / rows;
    double squares = 0;
    for_each([&](double value) { squares += (value - mean) * (value - mean); });
    const double deviation = std::sqrt(squares / rows);
    numbers[i]->mean = mean;
    numbers[i]->deviation = deviation > 0 ? deviation : 1;
    numbers[i]->scaled = true;
  }
  return encoding;
}

absl::StatusOr<CsvEncoding> CsvEncoding::FromJson(absl::string_view json) {
  const Json object = ParseJson(json);
  if (!object.is_object()) return WrongEncoding("it is no JSON object");
  if (object.value("format", Json()) != kFormat) {
    return WrongEncoding(absl::StrCat("its format is not ", kFormat));
  }
  const Json label = object.value("label", Json());
  const Json columns = object.value("columns", Json());
  if (!columns.is_array() || columns.size() < 2 ||
      columns.size() > kMaxColumns) {
    return WrongEncoding("`columns` must be a list of at least two columns");
  }
  if (!label.is_number_unsigned() || label >= columns.size()) {
    return WrongEncoding("`label` must be the index of a column");
  }
  CsvEncoding encoding;
  encoding.label_ = label;
  const Json log_transform = object.value("log_transform", Json(false));
  if (!log_transform.is_boolean()) {
    return WrongEncoding("`log_transform` must be true or false");
  }
  encoding.log_transform_ = log_transform;
  for (const Json& json_column : columns) {
    Column column;
    if (!json_column.is_object())
      return WrongEncoding("a column must be an object");
    const auto categories = json_column.find("categories");
    if (categories != json_column.end()) {
      TRIBUTARY_ASSIGN_OR_RETURN(column.categories,
                                 ReadCategories(*categories));
    } else if (json_column.value("left_out", Json()) == true) {
      column.left_out = true;
    } else if (!json_column.empty()) {
      column.scaled = true;
      TRIBUTARY_ASSIGN_OR_RETURN(column.mean, ReadNumber(json_column, "mean"));
      TRIBUTARY_ASSIGN_OR_RETURN(column.deviation,
                                 ReadNumber(json_column, "deviation"));
      if (column.deviation <= 0)
        return WrongEncoding("`deviation` must be above 0");
    }
    encoding.columns_.push_back(std::move(column));
  }
  return encoding;
}

std::string CsvEncoding::ToJson() const {
  Json columns = Json::array();
  for (const Column& column : columns_) {
    Json json = Json::object();
    if (!column.categories.empty()) {
      json["categories"] = column.categories;
    } else if (column.left_out) {
      json["left_out"] = true;
    } else if (column.scaled) {
      json["mean"] = column.mean;
      json["deviation"] = column.deviation;
    }
    columns.push_back(std::move(json));
  }
  Json json = {
      {"format", kFormat}, {"label", label_}, {"columns", std::move(columns)}};
  if (log_transform_) json["log_transform"] = true;
  // Numbers are written with as many digits as reading them back needs.
  return json.dump();
}

int64_t CsvEncoding::features() const {
  int64_t features = 0;
  for (int64_t i = 0; i < columns(); ++i) {
    const Column& column = columns_[static_cast<size_t>(i)];
    if (i == label_ || column.left_out) continue;
    features +=
        std::max<int64_t>(static_cast<int64_t>(column.categories.size()), 1);
  }
  return features;
}

template <typename Has>
std::vector<int32_t> CsvEncoding::ColumnsThat(bool labeled,
                                              const Has& has) const {
  std::vector<int32_t> found;
  int32_t place = 0;
  for (int64_t i = 0; i < columns(); ++i) {
    if (i == label_ && !labeled) continue;
    if (has(columns_[static_cast<size_t>(i)])) found.push_back(place);
    ++place;
  }
  return found;
}

std::vector<int32_t> CsvEncoding::CategoryColumns(bool labeled) const {
  return ColumnsThat(
      labeled, [](const Column& column) { return !column.categories.empty(); });
}

std::vector<int32_t> CsvEncoding::LeftOutColumns(bool labeled) const {
  return ColumnsThat(labeled,
                     [](const Column& column) { return column.left_out; });
}

absl::Status CsvEncoding::CheckFeatures(absl::string_view name,
                                        int64_t rows) const {
  const int64_t most = kMaxDataBytes / static_cast<int64_t>(sizeof(float));
  if (features() <= most / std::max<int64_t>(rows, 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": ", rows, " rows of ", features(), " features need more than ",
      kMaxDataBytes,
      " bytes, the most that is kept in memory; each value of a column of "
      "data.csv.category_column is a feature"));
}

absl::Status CsvEncoding::Encode(absl::string_view name,
                                 CsvTable* table) const {
  // The column of the encoding for each column of the table, and its indexes of
  // categories.
  std::vector<const Column*> columns;
  const bool labeled = table->columns == this->columns();
  for (int64_t i = 0; i < this->columns(); ++i) {
    if (i != label_ || labeled) {
      columns.push_back(&columns_[static_cast<size_t>(i)]);
    }
  }
  std::vector<std::vector<int32_t>> indexes(columns.size());
  std::vector<const CsvCategories*> categories(columns.size(), nullptr);
  for (const CsvCategories& column : table->categories) {
    const auto place = static_cast<size_t>(column.column);
    TRIBUTARY_ASSIGN_OR_RETURN(indexes[place],
                               Match(name, column, columns[place]->categories));
    categories[place] = &column;
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckFeatures(name, table->rows));
  std::vector<float> features;
  features.reserve(static_cast<size_t>(table->rows * this->features()));
  table->features = this->features();
  const float* cell = table->cells.data();
  for (int64_t row = 0; row < table->rows; ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool is_label = labeled && static_cast<int64_t>(i) == label_;
      if (categories[i] != nullptr) {
        const int32_t index = indexes[i][static_cast<size_t>(
            categories[i]->cells[static_cast<size_t>(row)])];
        if (is_label) {
          table->labels.push_back(index);
          continue;
        }
        features.resize(features.size() + columns[i]->categories.size());
        (features.end() -
         static_cast<std::ptrdiff_t>(columns[i]->categories.size()))[index] = 1;
        continue;
      }
      if (is_label || columns[i]->left_out) continue;
      const float value = *cell++;
      features.push_back(
          columns[i]->scaled
              ? static_cast<float>((double{value} - columns[i]->mean) /
                                   columns[i]->deviation)
              : value);
      if (!std::isfinite(features.back())) {
        return absl::InvalidArgumentError(absl::StrCat(
            name, ": column ", i, " (counted from 0), sample ", row, ": ",
            value, " is too far from the training data's mean ",
            columns[i]->mean, " to be standardized"));
      }
    }
  }
  table->cells = std::move(features);
  return absl::OkStatus();
}

}  // namespace tributary
