#include "deploy/tools/tune/journal/journal_lines.h"

#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

Json Operation(JournalOperation operation, const std::string& worker) {
  return {{"op_code", static_cast<int>(operation)}, {"worker_id", worker}};
}

// Bytes of names and messages that are not UTF-8 are replaced.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace);
}

std::string IsoTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6S+00:00", time,
                          absl::UTCTimeZone());
}

}  // namespace

std::string DistributionJson(const SearchParameterSpec& parameter) {
  if (parameter.has_number()) {
    const NumberRange& range = parameter.number();
    Json attributes = {{"step", nullptr},
                       {"low", range.low()},
                       {"high", range.high()},
                       {"log", range.log()}};
    if (range.step() > 0) attributes["step"] = range.step();
    return Text({{"name", "FloatDistribution"}, {"attributes", attributes}});
  }
  if (parameter.has_integer()) {
    const IntegerRange& range = parameter.integer();
    return Text({{"name", "IntDistribution"},
                 {"attributes",
                  {{"log", range.log()},
                   {"step", range.step()},
                   {"low", range.low()},
                   {"high", range.high()}}}});
  }
  Json choices = Json::array();
  for (const std::string& value : parameter.choice().value()) {
    choices.push_back(value);
  }
  return Text({{"name", "CategoricalDistribution"},
               {"attributes", {{"choices", choices}}}});
}

std::string CreateStudyLine(const std::string& worker, const std::string& name,
                            const std::vector<bool>& maximize) {
  Json line = Operation(JournalOperation::kCreateStudy, worker);
  line["study_name"] = name;
  line["directions"] = Json::array();
  for (const bool up : maximize) line["directions"].push_back(up ? 2 : 1);
  return Text(line);
}

std::string StudyAttributeLine(const std::string& worker, int64_t study,
                               const Json& attribute) {
  Json line = Operation(JournalOperation::kSetStudyUserAttribute, worker);
  line["study_id"] = study;
  line["user_attr"] = attribute;
  return Text(line);
}

std::string CreateTrialLine(const std::string& worker, int64_t study,
                            JournalState state, const SearchSpace& space,
                            const SearchPoint& point,
                            const Json& system_attributes, absl::Time now) {
  Json line = Operation(JournalOperation::kCreateTrial, worker);
  line["study_id"] = study;
  line["datetime_start"] = nullptr;
  if (state == JournalState::kRunning) line["datetime_start"] = IsoTime(now);
  line["state"] = static_cast<int>(state);
  line["value"] = nullptr;
  line["values"] = nullptr;
  line["distributions"] = Json::object();
  line["params"] = Json::object();
  for (int i = 0; i < space.size(); ++i) {
    if (!point[i].has_value()) continue;
    const SearchParameterSpec& parameter = space.parameter(i);
    line["distributions"][parameter.path()] = DistributionJson(parameter);
    line["params"][parameter.path()] = *point[i];
  }
  line["user_attrs"] = Json::object();
  line["system_attrs"] = system_attributes;
  line["intermediate_values"] = Json::object();
  return Text(line);
}

std::string ParameterLine(const std::string& worker, int64_t trial,
                          const SearchParameterSpec& parameter, double value) {
  Json line = Operation(JournalOperation::kSetTrialParameter, worker);
  line["trial_id"] = trial;
  line["param_name"] = parameter.path();
  line["param_value_internal"] = value;
  line["distribution"] = DistributionJson(parameter);
  return Text(line);
}

std::string StateLine(const std::string& worker, int64_t trial,
                      JournalState state, const std::vector<double>& values,
                      absl::Time now) {
  Json line = Operation(JournalOperation::kSetTrialState, worker);
  line["trial_id"] = trial;
  line["state"] = static_cast<int>(state);
  line["values"] = nullptr;
  if (!values.empty()) line["values"] = values;
  line[state == JournalState::kRunning ? "datetime_start"
                                       : "datetime_complete"] = IsoTime(now);
  return Text(line);
}

std::string IntermediateValueLine(const std::string& worker, int64_t trial,
                                  int64_t step, double value) {
  Json line = Operation(JournalOperation::kSetTrialIntermediateValue, worker);
  line["trial_id"] = trial;
  line["step"] = step;
  line["intermediate_value"] = value;
  return Text(line);
}

std::string UserAttributeLine(const std::string& worker, int64_t trial,
                              const Json& attribute) {
  Json line = Operation(JournalOperation::kSetTrialUserAttribute, worker);
  line["trial_id"] = trial;
  line["user_attr"] = attribute;
  return Text(line);
}

std::string SystemAttributeLine(const std::string& worker, int64_t trial,
                                const Json& attribute) {
  Json line = Operation(JournalOperation::kSetTrialSystemAttribute, worker);
  line["trial_id"] = trial;
  line["system_attr"] = attribute;
  return Text(line);
}

}  // namespace tributary
