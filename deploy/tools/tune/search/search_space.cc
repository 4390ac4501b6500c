#include "deploy/tools/tune/search/search_space.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/field_checks.h"

namespace tributary {
namespace {

// Tolerates the rounding of high - low when it is divided by the step.
constexpr double kStepSlack = 1e-8;

int64_t CountOf(const NumberRange& range) {
  return static_cast<int64_t>(std::floor(
             (range.high() - range.low()) / range.step() + kStepSlack)) +
         1;
}

int64_t CountOf(const IntegerRange& range) {
  return (range.high() - range.low()) / range.step() + 1;
}

// Returns an index below `count`.
int64_t IndexAt(double position, int64_t count) {
  return std::min(static_cast<int64_t>(position * static_cast<double>(count)),
                  count - 1);
}

double NumberAt(const NumberRange& range, double position) {
  if (range.step() > 0) {
    const int64_t index = IndexAt(position, CountOf(range));
    return std::min(range.low() + static_cast<double>(index) * range.step(),
                    range.high());
  }
  const double value =
      range.log() ? std::exp(std::log(range.low()) +
                             position * (std::log(range.high()) -
                                         std::log(range.low())))
                  : range.low() + position * (range.high() - range.low());
  return std::min(std::max(value, range.low()), range.high());
}

double IntegerAt(const IntegerRange& range, double position) {
  if (!range.log()) {
    return static_cast<double>(range.low() + IndexAt(position, CountOf(range)) *
                                                 range.step());
  }
  // Each integer has the logarithms of the reals that are rounded to it.
  const double low = std::log(static_cast<double>(range.low()) - 0.5);
  const double high = std::log(static_cast<double>(range.high()) + 0.5);
  const double value = std::round(std::exp(low + position * (high - low)));
  return std::min(std::max(value, static_cast<double>(range.low())),
                  static_cast<double>(range.high()));
}

std::string RangeText(const SearchParameterSpec& parameter) {
  if (parameter.has_choice()) {
    return absl::StrCat("one of ",
                        absl::StrJoin(parameter.choice().value(), ", "));
  }
  if (parameter.has_integer()) {
    return absl::StrCat("an integer from ", parameter.integer().low(), " to ",
                        parameter.integer().high(), " in steps of ",
                        parameter.integer().step());
  }
  const NumberRange& range = parameter.number();
  return absl::StrCat(
      "a number from ", range.low(), " to ", range.high(),
      range.step() > 0 ? absl::StrCat(" in steps of ", range.step()) : "");
}

}  // namespace

int SearchSpace::Find(absl::string_view path) const {
  for (int i = 0; i < size(); ++i) {
    if (parameters_[i].path() == path) return i;
  }
  return -1;
}

bool SearchSpace::IsActive(int i, const SearchPoint& point) const {
  if (!parameters_[i].has_when()) return true;
  const SearchCondition& when = parameters_[i].when();
  const int choice = Find(when.path());
  const absl::optional<double>& value = point[choice];
  if (!value.has_value()) return false;
  const std::string text = ValueText(choice, *value);
  return std::find(when.value().begin(), when.value().end(), text) !=
         when.value().end();
}

double PositionOf(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double SearchSpace::ValueAt(int i, double position) const {
  const SearchParameterSpec& parameter = parameters_[i];
  if (parameter.has_number()) return NumberAt(parameter.number(), position);
  if (parameter.has_integer()) return IntegerAt(parameter.integer(), position);
  return static_cast<double>(
      IndexAt(position, parameter.choice().value_size()));
}

double SearchSpace::Nearest(int i, double value) const {
  const SearchParameterSpec& parameter = parameters_[i];
  if (parameter.has_integer()) {
    const IntegerRange& range = parameter.integer();
    const double index = std::round((value - static_cast<double>(range.low())) /
                                    static_cast<double>(range.step()));
    const double last = static_cast<double>(CountOf(range) - 1);
    return static_cast<double>(range.low() + static_cast<int64_t>(std::min(
                                                 std::max(index, 0.0), last)) *
                                                 range.step());
  }
  const NumberRange& range = parameter.number();
  if (range.step() > 0) {
    const double last = static_cast<double>(CountOf(range) - 1);
    const double index = std::round((value - range.low()) / range.step());
    value = range.low() + std::min(std::max(index, 0.0), last) * range.step();
  }
  return std::min(std::max(value, range.low()), range.high());
}

std::vector<double> SearchSpace::GridValues(int i) const {
  const SearchParameterSpec& parameter = parameters_[i];
  std::vector<double> values;
  if (parameter.has_number() && parameter.number().step() == 0) {
    const NumberRange& range = parameter.number();
    const int points = range.grid_points();
    for (int k = 0; k < points; ++k) {
      const double position = static_cast<double>(k) / (points - 1);
      // The ends, exactly.
      values.push_back(k == 0            ? range.low()
                       : k == points - 1 ? range.high()
                                         : NumberAt(range, position));
    }
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }
  const int64_t count = parameter.has_number() ? CountOf(parameter.number())
                        : parameter.has_integer()
                            ? CountOf(parameter.integer())
                            : parameter.choice().value_size();
  for (int64_t k = 0; k < count; ++k) {
    values.push_back(parameter.has_integer()
                         ? static_cast<double>(parameter.integer().low() +
                                               k * parameter.integer().step())
                         : ValueAt(i, (static_cast<double>(k) + 0.5) /
                                          static_cast<double>(count)));
  }
  return values;
}

std::string SearchSpace::ValueText(int i, double value) const {
  const SearchParameterSpec& parameter = parameters_[i];
  if (parameter.has_choice()) {
    return parameter.choice().value(static_cast<int>(value));
  }
  if (parameter.has_integer()) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  // The shortest text that restores the number.
  for (int digits = 1; digits < 17; ++digits) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    double restored;
    if (absl::SimpleAtod(text, &restored) && restored == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::vector<std::string> SearchSpace::Sets(const SearchPoint& point) const {
  std::vector<std::string> sets;
  for (int i = 0; i < size(); ++i) {
    if (!point[i].has_value()) continue;
    sets.push_back(
        absl::StrCat(parameters_[i].path(), "=", ValueText(i, *point[i])));
  }
  return sets;
}

absl::StatusOr<double> SearchSpace::ParseValue(int i,
                                               absl::string_view text) const {
  const SearchParameterSpec& parameter = parameters_[i];
  if (parameter.has_choice()) {
    const auto& values = parameter.choice().value();
    const auto found = std::find(values.begin(), values.end(), text);
    if (found != values.end()) {
      return static_cast<double>(found - values.begin());
    }
  } else {
    double value;
    if (absl::SimpleAtod(text, &value) && Contains(i, value)) return value;
  }
  return Error(parameter.path(), "\"", text, "\" is not ",
               RangeText(parameter));
}

bool SearchSpace::Contains(int i, double value) const {
  const SearchParameterSpec& parameter = parameters_[i];
  if (parameter.has_number()) {
    const NumberRange& range = parameter.number();
    if (!(value >= range.low() && value <= range.high())) return false;
    if (range.step() == 0) return true;
    const double steps = (value - range.low()) / range.step();
    return std::abs(steps - std::round(steps)) < kStepSlack;
  }
  if (!(std::abs(value) <= 0x1p53) || value != std::floor(value)) return false;
  const int64_t integer = static_cast<int64_t>(value);
  if (parameter.has_integer()) {
    const IntegerRange& range = parameter.integer();
    return integer >= range.low() && integer <= range.high() &&
           (integer - range.low()) % range.step() == 0;
  }
  return integer >= 0 && integer < parameter.choice().value_size();
}

bool SearchSpace::Contains(const SearchPoint& point) const {
  if (point.size() != parameters_.size()) return false;
  for (int i = 0; i < size(); ++i) {
    if (IsActive(i, point) != point[i].has_value()) return false;
    if (point[i].has_value() && !Contains(i, *point[i])) return false;
  }
  return true;
}

}  // namespace tributary
