#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_STUDY_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_STUDY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/tools/tune/journal/study_journal.h"
#include "deploy/tools/tune/search/final_stage.h"
#include "deploy/tools/tune/search/point_sampler.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/study.h"
#include "deploy/tools/tune/study_folder.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"
#include "proto/search.pb.h"

namespace tributary {

// A study in a folder (see StudyFolder).
//
// All changes are written to the journal first, and applied by reading it, so
// that a study which is opened again has the same state. Not thread-safe.
class TuneStudy {
 public:
  // Creates the files of a study in `folder`, which must exist. `import` is the
  // path of a journal of Optuna whose first study, or the one with the search's
  // name, is continued; empty if there is none. Removes the files of another
  // study. Returns InvalidArgument if the job cannot be searched, or if the
  // journal's study has other objectives, or trials of which none has the
  // search's parameters. After an error, the folder contains no study.
  static absl::Status Create(const std::string& folder,
                             const SearchSpec& search,
                             const std::string& job_text,
                             const std::string& import);
  // Opens the study in `folder`. Returns NotFound if there is none, and
  // DataLoss if its files do not fit together, or if Optuna has deleted the
  // study. Changes nothing.
  static absl::StatusOr<std::unique_ptr<TuneStudy>> Open(
      const std::string& folder);
  const SearchSpec& search() const { return search_; }
  const SearchSpace& space() const { return space_; }
  const Study& study() const { return *study_; }
  // The final evaluation; nullptr if the search has none.
  const FinalStage* final_stage() const {
    return final_.has_value() ? &*final_ : nullptr;
  }
  // True if nothing is left to do.
  bool Done() const {
    return study_->Done() && (!final_.has_value() || final_->Done());
  }
  // Returns what may start: segments of the search or, when it is done, runs of
  // the final evaluation.
  std::vector<Segment> Startable() const;
  // Returns the best trials: those of Study::Best or, if the final evaluation
  // is done, its winner.
  std::vector<int64_t> Best() const;
  // The job without values of parameters.
  const JobSpec& job() const { return job_; }
  const std::vector<JournalTrial>& records() const {
    return journal_->replay().trials();
  }
  const std::string& name() const { return journal_->replay().name(); }
  const StudyFolder& folder() const { return folder_; }
  // Returns the job of a trial, as a whole.
  absl::StatusOr<JobSpec> JobOfTrial(int64_t trial) const;
  // True if the trial is in the queue of `tributary tune enqueue`, or of
  // Optuna's enqueue_trial, and was not begun.
  bool IsQueued(int64_t trial) const;

  // Reads what other processes have appended. Returns the errors of
  // StudyJournal::Read, and DataLoss if Optuna has deleted the study.
  absl::Status Read() { return journal_->Read(); }
  // Chooses the next point, for the built-in samplers.
  SearchPoint NextPoint() const;
  // The journal, to which StudyWriter appends. Its events change study().
  StudyJournal* journal() const { return journal_.get(); }

 private:
  TuneStudy(std::string folder, SearchSpec search)
      : folder_(std::move(folder)),
        search_(std::move(search)),
        space_(search_) {}

  absl::Status Load();
  absl::Status Apply(const JournalEvent& event);
  absl::Status ApplyCreated(int64_t number, const JournalTrial& trial);
  absl::Status ApplyState(int64_t number, const JournalTrial& trial);
  // Returns the point of a trial of the journal; nullopt if its parameters are
  // not those of the search. With `partial`, values may be absent.
  absl::optional<SearchPoint> PointOf(const JournalTrial& trial,
                                      bool partial) const;
  // Returns the point of a queued trial; nullopt if it has values that the
  // search does not have.
  absl::optional<SearchPoint> QueuedPoint(int64_t number,
                                          const JournalTrial& trial) const;
  TrialResult ResultOf(const JournalTrial& trial,
                       std::vector<double> values) const;

  const StudyFolder folder_;
  const SearchSpec search_;
  const SearchSpace space_;
  std::string job_text_;
  JobSpec job_;
  absl::optional<PointSampler> sampler_;
  std::unique_ptr<Study> study_;
  absl::optional<FinalStage> final_;
  std::unique_ptr<StudyJournal> journal_;
  bool loaded_ = false;  // True once the journal was read as a whole.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_STUDY_H_
