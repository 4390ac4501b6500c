// What a journal says about the final evaluation.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_FINAL_RECORDS_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_FINAL_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// A run of the final evaluation.
struct FinalRecord {
  int64_t trial = 0;
  int64_t seed = 0;
  bool ended = false;
  absl::optional<TrialResult>
      result;           // nullopt if it has not ended, or failed.
  std::string failure;  // The reason; empty if it has not failed.
};

// Parses a user attribute of the study whose name begins with kFinalPrefix.
// Returns nullopt if it is not the record of a run.
absl::optional<FinalRecord> ParseFinalRecord(
    const std::string& name, const nlohmann::ordered_json& value);

// Returns the trials in the attribute kFinalTrials, the best first.
std::vector<int64_t> ParseFinalTrials(const nlohmann::ordered_json& value);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_FINAL_RECORDS_H_
