#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_WRITER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/tools/tune/journal/study_journal.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "deploy/tools/tune/tune_study.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Changes a study, by appending to its journal. All methods return Aborted, and
// change nothing but what TuneStudy::Read does, if another process has appended
// something that the study had not read. Not thread-safe.
class StudyWriter {
 public:
  // `study` must outlive this object.
  explicit StudyWriter(TuneStudy* study)
      : study_(*study), journal_(*study->journal()) {}

  // Adds a trial. `attributes` are those that a sampler of Optuna keeps.
  absl::Status Propose(const SearchPoint& point,
                       const nlohmann::ordered_json& attributes);
  // Adds a trial with some values, which will be begun later.
  absl::Status Enqueue(const SearchPoint& fixed);
  // Records that a trial of the queue begins.
  absl::Status Begin(int64_t trial);
  // Records the result of the trial's segment. `summary` is summary.json of its
  // run, from which weights_sha256 is kept.
  absl::Status Report(int64_t trial, const TrialResult& result,
                      const nlohmann::ordered_json& summary);
  absl::Status Fail(int64_t trial, const std::string& reason);
  // Records that the tuner `id` trains the segment of a shared study; empty:
  // nobody does.
  absl::Status Claim(const Segment& segment, const std::string& id);
  // Begins the final evaluation with the best trials. The search must be done.
  absl::Status BeginFinal();
  // Record the result of a run of the final evaluation, or that it has failed.
  absl::Status ReportFinal(const Segment& run, const TrialResult& result,
                           const nlohmann::ordered_json& summary);
  absl::Status FailFinal(const Segment& run, const std::string& reason);
  // Proposes no more trials.
  absl::Status Close();
  // Records that the trials which wait at a rung will not be continued.
  absl::Status Finish();

 private:
  absl::Status SetStudyAttribute(const std::string& name,
                                 const nlohmann::ordered_json& value);
  std::vector<std::string> ConstraintLines(const JournalTrial& trial,
                                           const TrialResult& result) const;

  const TuneStudy& study_;
  StudyJournal& journal_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_WRITER_H_
