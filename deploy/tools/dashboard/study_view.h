// A study of `tributary tune`, as the dashboard shows it.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_STUDY_VIEW_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_STUDY_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/os/untrusted_folder.h"
#include "deploy/tools/tune/journal/journal_replay.h"
#include "deploy/tools/tune/search/final_stage.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/search.pb.h"

namespace tributary {

// Reads the search file and the journal of a study in a folder, also while the
// study grows. The folder may be another user's. Changes nothing. Not
// thread-safe. Methods block on the disk, for about half a second at most; the
// next call then continues.
class StudyView {
 public:
  // Larger journals are not shown.
  static constexpr int64_t kMaxJournalBytes = 64 << 20;
  // The number of trials that Details describes: the newest ones.
  static constexpr size_t kMaxTrials = 2000;

  // `named` is true if the user has named the folder.
  StudyView(UntrustedFolder folder, bool named);

  // Returns true if the folder contains the files of a study.
  static bool IsStudy(const UntrustedFolder& folder);

  // As in RunView.
  const std::string& key() const { return key_; }
  // The folder of the trials' runs.
  std::string TrialsFolder() const { return folder_.PathOf("trials"); }

  // Returns what the page needs to know of each study, and whether it has
  // changed: "key", "name", "path", "named", "trials" (their number), "lines"
  // (of the journal), "live" (whether trials have not ended, or the journal has
  // grown lately) and "problem", which says what cannot be read.
  nlohmann::ordered_json Overview();

  // Returns the members of Overview and:
  //   objectives   "metric" and "maximize" of each
  //   parameters   "path", "kind" (number, integer, choice), "low", "high",
  //                "log" and "choices" of each
  //   trials       the newest kMaxTrials: "number", "state" (as in Optuna),
  //                "values" of the objectives if it is complete, "steps" and
  //                "results" (the first objective) of its rungs, "point" (for
  //                each parameter the number, the index of the choice, or
  //                null), "violated", "failure" and "run", the key of its run
  //   best         numbers of the best complete trials: the winner of the
  //                final evaluation, the first of the best ones or, with
  //                several objectives, the Pareto front
  //   final        the final evaluation; null if it has not begun: "done", and
  //                "trials", the best first: "trial", "values" by seed (null:
  //                not known), "ended" and "failed" (numbers of runs), "mean"
  //                and "deviation" (null with too few values)
  //   importance   for each objective, with the most steps that at least
  //                kEnoughTrials trials have reached: "steps" (null: the end),
  //                "trials" (their number) and "values" by parameter; see
  //                ParameterImportances
  nlohmann::ordered_json Details();

  // So many trials are enough to tell which parameters matter.
  static constexpr size_t kEnoughTrials = 20;

 private:
  void Update();
  void ReadSearch();
  void ReadJournal();
  // Returns the point of a trial; nullopt if it has not exactly the parameters
  // of the search.
  absl::optional<SearchPoint> PointOf(const JournalTrial& trial) const;
  // Returns true if a constraint is violated.
  static bool IsViolated(const JournalTrial& trial);
  // Returns the values of the objectives; empty unless the trial is complete
  // and all of them are finite.
  std::vector<double> ValuesOf(const JournalTrial& trial) const;
  // Returns the values, and the violations of constraints.
  TrialResult ResultOf(const JournalTrial& trial) const;
  // Returns the final evaluation; nullopt if the search has none, or if it has
  // not begun.
  absl::optional<FinalStage> ReadFinal() const;
  std::vector<size_t> Best() const;
  nlohmann::ordered_json TrialJson(size_t number) const;
  nlohmann::ordered_json ImportanceOf(int objective) const;

  const UntrustedFolder folder_;
  const bool named_;
  const std::string key_;
  absl::optional<SearchSpec> search_;
  absl::optional<SearchSpace> space_;
  std::string search_problem_, journal_problem_;
  std::unique_ptr<JournalReplay> replay_;  // Null until the search is read.
  InputFile::Facts facts_;                 // Of the journal that was read.
  int64_t offset_ = 0;                     // Number of its bytes.
  int64_t lines_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_STUDY_VIEW_H_
