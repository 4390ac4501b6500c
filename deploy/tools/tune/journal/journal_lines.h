// Writes the operations of Optuna's journal files: each function returns one
// line, without its line end. `worker` names the process that writes; see
// StudyJournal::worker.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LINES_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/tools/tune/journal/journal_replay.h"
#include "deploy/tools/tune/search/search_space.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/search.pb.h"

namespace tributary {

// Returns the range of a parameter as Optuna's JSON describes distributions.
std::string DistributionJson(const SearchParameterSpec& parameter);

std::string CreateStudyLine(const std::string& worker, const std::string& name,
                            const std::vector<bool>& maximize);
std::string StudyAttributeLine(const std::string& worker, int64_t study,
                               const nlohmann::ordered_json& attribute);
// A trial with these values, in the state kRunning or kWaiting.
std::string CreateTrialLine(const std::string& worker, int64_t study,
                            JournalState state, const SearchSpace& space,
                            const SearchPoint& point,
                            const nlohmann::ordered_json& system_attributes,
                            absl::Time now);
std::string ParameterLine(const std::string& worker, int64_t trial,
                          const SearchParameterSpec& parameter, double value);
// `values` are empty unless the trial has ended with values.
std::string StateLine(const std::string& worker, int64_t trial,
                      JournalState state, const std::vector<double>& values,
                      absl::Time now);
std::string IntermediateValueLine(const std::string& worker, int64_t trial,
                                  int64_t step, double value);
// `attribute` is an object with one member.
std::string UserAttributeLine(const std::string& worker, int64_t trial,
                              const nlohmann::ordered_json& attribute);
std::string SystemAttributeLine(const std::string& worker, int64_t trial,
                                const nlohmann::ordered_json& attribute);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LINES_H_
