#include "deploy/tools/tune/journal/journal_replay.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "common/base/json.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// Returns the line as JSON. Python writes numbers that are not finite as NaN
// and Infinity, which JSON does not have; they become null.
Json ParseLine(absl::string_view line) {
  Json json = ParseOrderedJson(line);
  if (!json.is_discarded()) return json;
  return ParseOrderedJson(absl::StrReplaceAll(line, {{":NaN", ":null"},
                                                     {":Infinity", ":null"},
                                                     {":-Infinity", ":null"},
                                                     {"[NaN", "[null"},
                                                     {"[Infinity", "[null"},
                                                     {"[-Infinity", "[null"},
                                                     {",NaN", ",null"},
                                                     {",Infinity", ",null"},
                                                     {",-Infinity", ",null"}}));
}

int64_t IntegerOf(const Json& object, const char* name, int64_t fallback) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : fallback;
}

// Returns the number, or NaN in place of null.
double NumberOf(const Json& value) {
  return value.is_number() ? value.get<double>()
                           : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> NumbersOf(const Json& object, const char* name) {
  std::vector<double> numbers;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& value : *found) numbers.push_back(NumberOf(value));
  return numbers;
}

// Returns the object of this name; an empty one if there is none.
Json MembersOf(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_object() ? *found : Json::object();
}

// Appends an event for each attribute of the study.
void ListAttributes(const Json& attributes, std::vector<JournalEvent>* events) {
  for (const auto& [name, value] : attributes.items()) {
    events->push_back({JournalEvent::Kind::kStudyAttribute, -1, 0, name});
  }
}

void Merge(const Json& line, const char* name, Json* attributes) {
  attributes->update(MembersOf(line, name));
}

JournalState StateOf(int64_t state) {
  return state >= 0 && state <= 4 ? static_cast<JournalState>(state)
                                  : JournalState::kRunning;
}

}  // namespace

absl::Status JournalReplay::Apply(absl::string_view text,
                                  std::vector<JournalEvent>* events) {
  const Json line = ParseLine(text);
  const int64_t operation =
      line.is_object() ? IntegerOf(line, "op_code", -1) : -1;
  if (operation < 0 ||
      operation > static_cast<int64_t>(JournalOperation::kDiscardTrials)) {
    return absl::DataLossError("is not an operation of a journal of Optuna");
  }
  const int64_t id = IntegerOf(line, "study_id", -1);
  const bool of_study = study_ >= 0 && id == study_;
  switch (static_cast<JournalOperation>(operation)) {
    case JournalOperation::kCreateStudy:
      CreateStudy(line);
      break;
    case JournalOperation::kDeleteStudy:
      studies_.erase(id);
      if (of_study) {
        study_ = -1;
        trials_.clear();
        user_attributes_ = Json::object();
        std::fill(numbers_.begin(), numbers_.end(), -1);
        events->push_back({JournalEvent::Kind::kDeleted, -1, 0, ""});
      }
      break;
    case JournalOperation::kSetStudyUserAttribute:
      if (!of_study) break;
      Merge(line, "user_attr", &user_attributes_);
      ListAttributes(MembersOf(line, "user_attr"), events);
      break;
    case JournalOperation::kSetStudySystemAttribute:
    case JournalOperation::kDiscardTrials:
      break;
    case JournalOperation::kCreateTrial:
      CreateTrial(line, events);
      break;
    default:
      ChangeTrial(static_cast<JournalOperation>(operation), line, events);
      break;
  }
  return absl::OkStatus();
}

void JournalReplay::CreateStudy(const Json& line) {
  const std::string name = StringMember(line, "study_name");
  if (std::any_of(studies_.begin(), studies_.end(),
                  [&](const auto& study) { return study.second == name; })) {
    return;
  }
  const int64_t id = created_++;
  studies_[id] = name;
  if (study_ >= 0 || (!wanted_.empty() && name != wanted_)) return;
  study_ = id;
  name_ = name;
  directions_.clear();
  for (const double direction : NumbersOf(line, "directions")) {
    directions_.push_back(static_cast<int>(direction));
  }
}

void JournalReplay::CreateTrial(const Json& line,
                                std::vector<JournalEvent>* events) {
  const int64_t study = IntegerOf(line, "study_id", -1);
  // Optuna gives no number to a trial of a study that does not exist.
  if (studies_.count(study) == 0) return;
  const bool ours = study == study_;
  numbers_.push_back(ours ? static_cast<int64_t>(trials_.size()) : -1);
  if (!ours) return;
  JournalTrial trial;
  trial.id = static_cast<int64_t>(numbers_.size()) - 1;
  trial.state = StateOf(IntegerOf(line, "state", 0));
  trial.began = StringMember(line, "datetime_start");
  trial.ended = StringMember(line, "datetime_complete");
  const auto distributions = line.find("distributions");
  const auto parameters = line.find("params");
  if (distributions != line.end() && distributions->is_object() &&
      parameters != line.end() && parameters->is_object()) {
    for (const auto& [name, value] : parameters->items()) {
      trial.parameters[name] = NumberOf(value);
      trial.distributions[name] = StringMember(*distributions, name);
    }
  }
  const auto steps = line.find("intermediate_values");
  if (steps != line.end() && steps->is_object()) {
    for (const auto& [step, value] : steps->items()) {
      int64_t number;
      if (absl::SimpleAtoi(step, &number)) {
        trial.intermediate_values[number] = NumberOf(value);
      }
    }
  }
  trial.values = NumbersOf(line, "values");
  const auto value = line.find("value");
  if (trial.values.empty() && value != line.end() && value->is_number()) {
    trial.values = {value->get<double>()};
  }
  Merge(line, "user_attrs", &trial.user_attributes);
  Merge(line, "system_attrs", &trial.system_attributes);
  events->push_back({JournalEvent::Kind::kCreated, numbers_.back(), 0, ""});
  trials_.push_back(std::move(trial));
}

void JournalReplay::ChangeTrial(JournalOperation operation, const Json& line,
                                std::vector<JournalEvent>* events) {
  const int64_t id = IntegerOf(line, "trial_id", -1);
  if (id < 0 || id >= static_cast<int64_t>(numbers_.size())) return;
  const int64_t number = numbers_[id];
  if (number < 0 || trials_[number].finished()) return;
  JournalTrial& trial = trials_[number];
  switch (operation) {
    case JournalOperation::kSetTrialParameter: {
      const std::string name = StringMember(line, "param_name");
      if (!line.contains("param_value_internal")) return;
      trial.parameters[name] = NumberOf(line["param_value_internal"]);
      trial.distributions[name] = StringMember(line, "distribution");
      break;
    }
    case JournalOperation::kSetTrialState: {
      const JournalState state = StateOf(IntegerOf(line, "state", 0));
      if (state == JournalState::kRunning && state == trial.state) return;
      trial.state = state;
      if (state == JournalState::kRunning) {
        trial.began = StringMember(line, "datetime_start");
      }
      if (trial.finished()) {
        trial.ended = StringMember(line, "datetime_complete");
      }
      const std::vector<double> values = NumbersOf(line, "values");
      if (!values.empty()) trial.values = values;
      events->push_back({JournalEvent::Kind::kState, number, 0, ""});
      break;
    }
    case JournalOperation::kSetTrialIntermediateValue: {
      const int64_t step = IntegerOf(line, "step", -1);
      if (!line.contains("intermediate_value")) return;
      trial.intermediate_values[step] = NumberOf(line["intermediate_value"]);
      events->push_back(
          {JournalEvent::Kind::kIntermediateValue, number, step, ""});
      break;
    }
    case JournalOperation::kSetTrialUserAttribute:
      Merge(line, "user_attr", &trial.user_attributes);
      break;
    case JournalOperation::kSetTrialSystemAttribute:
      Merge(line, "system_attr", &trial.system_attributes);
      break;
    default:
      break;
  }
}

}  // namespace tributary
