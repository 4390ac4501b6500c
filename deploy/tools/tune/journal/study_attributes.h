// The names of attributes of trials and studies in a journal.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_

namespace tributary {

// System attribute of the trials that Tributary runs: who chose their values.
inline constexpr char kProposedBy[] = "tributary:proposed_by";
// User attribute of the study: the number of trials when its time was over.
inline constexpr char kClosedAt[] = "tributary:trials";
// Prefix of the system attributes with which Optuna stores constraints.
inline constexpr char kConstraintPrefix[] = "constraints:";
// User attributes of trials: the digest of the weights of a complete trial, and
// the reason of a failed one.
inline constexpr char kWeightsDigest[] = "weights_sha256";
inline constexpr char kFailure[] = "failure";

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_ATTRIBUTES_H_
