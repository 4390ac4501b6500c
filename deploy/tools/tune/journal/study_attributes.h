// The names of attributes of trials and studies in a journal.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tributary {

// System attribute of the trials that Tributary runs: who chose their values.
inline constexpr char kProposedBy[] = "tributary:proposed_by";
// System attribute of the members of a population: the trial from whose
// checkpoint the trial continues.
inline constexpr char kParent[] = "tributary:parent";
// System attribute of trials of a shared study: which tuner trains the trial to
// which rung, as {"tuner": ..., "rung": ...}. The results of the final
// evaluation have a member "tuner" until they are known.
inline constexpr char kClaim[] = "tributary:claim";
inline constexpr char kTuner[] = "tuner";
// User attribute of the study: the number of trials when its time was over.
inline constexpr char kClosedAt[] = "tributary:trials";
// User attributes of the study: the trials of the final evaluation, and the
// prefix of those with the result of a run, as in tributary:final:12:3 for
// trial 12 and its fourth seed.
inline constexpr char kFinalTrials[] = "tributary:final";
inline constexpr char kFinalPrefix[] = "tributary:final:";
inline std::string FinalRunName(int64_t trial, int64_t seed) {
  return absl::StrCat(kFinalPrefix, trial, ":", seed);
}
// Prefix of the system attributes with which Optuna stores constraints.
inline constexpr char kConstraintPrefix[] = "constraints:";
// User attributes of trials: the digest of the weights of a complete trial, and
// the reason of a failed one.
inline constexpr char kWeightsDigest[] = "weights_sha256";
inline constexpr char kFailure[] = "failure";

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_
