#include "common/job/config.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/text/nearest.h"
#include "nlohmann/json.hpp"

namespace tributary {

struct Config::State {
  // Returns the member and marks it as read, or null if there is none.
  const nlohmann::json* Find(absl::string_view name) {
    const std::string key(name);
    read.insert(key);
    const auto found = members.find(key);
    return found == members.end() ? nullptr : &*found;
  }

  template <typename... What>
  void Fail(const What&... what) {
    if (!status.ok()) return;
    status = absl::InvalidArgumentError(absl::StrCat(field, ": ", what...));
  }

  void RefuseValue(absl::string_view name, const nlohmann::json& value,
                   absl::string_view wanted) {
    Fail(name, " is ", value.dump(), ", expected ", wanted);
  }

  std::string field;
  std::string text;
  nlohmann::json members;
  std::set<std::string> read;
  bool all_read = false;
  absl::Status status;
};

namespace {

std::string Range(absl::string_view what, double least, double most) {
  return absl::StrCat(what, " from ", least, " to ", most);
}

std::string Range(absl::string_view what, int64_t least, int64_t most) {
  return absl::StrCat(what, " from ", least, " to ", most);
}

bool IsIntegerWithin(const nlohmann::json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return number >= least && number <= most;
}

}  // namespace

Config::Config(absl::string_view field, absl::string_view json)
    : state_(std::make_unique<State>()) {
  state_->field = std::string(field);
  state_->text = std::string(json);
  state_->members = ParseJson(json);
  if (state_->members.is_object()) return;
  state_->members = nlohmann::json::object();
  state_->Fail("is not a JSON object");
}

Config::~Config() = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;

int64_t Config::Integer(absl::string_view name, int64_t fallback, int64_t least,
                        int64_t most) {
  const nlohmann::json* const value = state_->Find(name);
  if (value == nullptr) return fallback;
  if (IsIntegerWithin(*value, least, most)) return value->get<int64_t>();
  state_->RefuseValue(name, *value, Range("an integer", least, most));
  return fallback;
}

double Config::Number(absl::string_view name, double fallback, double least,
                      double most) {
  const nlohmann::json* const value = state_->Find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  state_->RefuseValue(name, *value, Range("a number", least, most));
  return fallback;
}

bool Config::Flag(absl::string_view name, bool fallback) {
  const nlohmann::json* const value = state_->Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  state_->RefuseValue(name, *value, "true or false");
  return fallback;
}

std::string Config::Text(absl::string_view name, absl::string_view fallback) {
  const nlohmann::json* const value = state_->Find(name);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  state_->RefuseValue(name, *value, "a text");
  return std::string(fallback);
}

std::vector<int64_t> Config::Integers(absl::string_view name,
                                      std::vector<int64_t> fallback,
                                      int64_t least, int64_t most) {
  const nlohmann::json* const value = state_->Find(name);
  if (value == nullptr) return fallback;
  std::vector<int64_t> numbers;
  for (const nlohmann::json& element : *value) {
    if (!value->is_array() || !IsIntegerWithin(element, least, most)) break;
    numbers.push_back(element.get<int64_t>());
  }
  if (value->is_array() && numbers.size() == value->size()) return numbers;
  state_->RefuseValue(name, *value, Range("a list of integers", least, most));
  return fallback;
}

const std::string& Config::json() {
  state_->all_read = true;
  return state_->text;
}

const absl::Status& Config::status() const { return state_->status; }

absl::Status Config::CheckAllRead() const {
  if (!state_->status.ok() || state_->all_read) return state_->status;
  for (const auto& [name, value] : state_->members.items()) {
    if (state_->read.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        state_->field, ": there is no member ", name,
        DidYouMean(name, {state_->read.begin(), state_->read.end()})));
  }
  return absl::OkStatus();
}

}  // namespace tributary
