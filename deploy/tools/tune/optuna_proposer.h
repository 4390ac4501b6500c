#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_OPTUNA_PROPOSER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_OPTUNA_PROPOSER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/tools/tune/tune_study.h"
#include "nlohmann/json.hpp"

namespace tributary {

// A child process in which a sampler of Optuna proposes points; see
// optuna_proposals.py, which is part of this program. Each proposal is a
// function of the search, of the trial's number, and of what may be known of
// earlier trials. The process ends with this object, and with this process. Not
// thread-safe.
class OptunaProposer {
 public:
  struct Proposal {
    SearchPoint point;
    nlohmann::ordered_json attributes;  // See TuneStudy::Propose.
  };

  // Starts `python`, the program of Python 3. Returns FailedPrecondition, with
  // the command that installs what is missing, if Optuna cannot be used. Blocks
  // until it is loaded. `study` must outlive this object.
  //
  // This function and Propose call `is_stopped` several times a second while
  // they wait for the process, and return Cancelled if it returns true.
  static absl::StatusOr<std::unique_ptr<OptunaProposer>> Start(
      const std::string& python, const TuneStudy* study,
      std::function<bool()> is_stopped);
  ~OptunaProposer();
  OptunaProposer(const OptunaProposer&) = delete;
  OptunaProposer& operator=(const OptunaProposer&) = delete;

  // Proposes the next trial of the study, which may propose one. Blocks until
  // the sampler has answered. After an error, nothing can be proposed any more.
  absl::StatusOr<Proposal> Propose();

 private:
  OptunaProposer(const TuneStudy* study, std::function<bool()> is_stopped)
      : study_(study), is_stopped_(std::move(is_stopped)) {}
  absl::Status Spawn(const std::string& python);
  // Sends a request and returns the answer, an object without errors.
  absl::StatusOr<nlohmann::ordered_json> Ask(
      const nlohmann::ordered_json& request);
  nlohmann::ordered_json DescribeSearch() const;
  nlohmann::ordered_json DescribeTrial(int64_t trial,
                                       const KnownTrial& known) const;

  const TuneStudy* const study_;
  const std::function<bool()> is_stopped_;
  pid_t pid_ = -1;
  int requests_ = -1;
  int answers_ = -1;
  std::string received_;  // What follows the last answer.
  // By trial: what the process knows, as state and number of results.
  std::vector<std::pair<KnownTrial::State, size_t>> sent_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_OPTUNA_PROPOSER_H_
