// The evaluations of a job.
#ifndef TRIBUTARY_SERVER_PROGRESS_EVALUATION_PROGRESS_H_
#define TRIBUTARY_SERVER_PROGRESS_EVALUATION_PROGRESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "common/numerics/score_histogram.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/evaluation_history.h"
#include "server/progress/plateau.h"

namespace tributary {

// Puts together the evaluations of a job from what workers report about pieces
// of the held-out data, and decides when the job stops early. Not thread-safe.
class EvaluationProgress {
 public:
  // `job` is a result of ResolveJob.
  EvaluationProgress(const JobSpec& job, const DataFacts& facts,
                     const Rounds& rounds);

  // Restore reads, and Save writes, the fields of JobState that belong to this
  // class. `version` is the version at which the job resumes.
  void Restore(int64_t version, const JobState& state);
  void Save(JobState* state) const;

  // Returns true if the job evaluates the weights of `version`.
  bool Due(int64_t version) const;
  // Returns the next version to be evaluated, at which training waits until the
  // evaluation is complete. Returns the final version if no evaluation is due
  // before it.
  int64_t Next() const;
  // Adds a worker's report of a part of an evaluation. Returns true if this
  // report completes the evaluation of its version. The job may then stop
  // early: this version becomes final_version(). Ignores repeated reports, and
  // reports about evaluations that are complete. Returns InvalidArgument for a
  // report that does not match the job.
  absl::StatusOr<bool> Add(const EvaluationReport& report, absl::Time now);

  // Makes `version`, before the job's last one, the final_version(), for this
  // reason. Returns false if the job ends at it or before it anyway.
  bool EndAt(int64_t version, const std::string& reason);

  // Returns a piece of the evaluation of `version` that was not reported;
  // nullopt if no evaluation of this version is due.
  std::optional<int64_t> MissingPiece(int64_t version) const;
  // Returns the time of the last report of a piece.
  absl::Time last_piece() const { return last_piece_; }
  // Returns the version of the finished model: the job's last version, or the
  // one at which the job stops early.
  int64_t final_version() const { return final_version_; }
  // Returns why the job stops early, in one line; empty if it does not.
  const std::string& stop_reason() const { return stop_reason_; }
  // Returns the newest evaluated version if it is the best one so far.
  // Otherwise, and in jobs without checkpoint.best, returns nullopt.
  const std::optional<int64_t>& best_version() const { return best_version_; }
  const EvaluationHistory& history() const { return history_; }
  // See Plateau::factor. The factor holds after the evaluation of
  // evaluated_version().
  std::optional<double> rate_factor() const { return plateau_.factor(); }
  // Returns the newest version whose evaluation is complete, or 0 if there is
  // none.
  int64_t evaluated_version() const { return evaluated_version_; }
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }

 private:
  // Returns InvalidArgument, with the value and the expected value, if a report
  // about a piece of an evaluation (a part of the held-out data) states an
  // impossible number of samples or of correct predictions, or invalid metrics
  // or scores.
  absl::Status CheckPiece(const EvaluationReport& report) const;
  // Decides whether `version`, the newest evaluated version, is the best
  // version, and whether the job stops early.
  void Judge(int64_t version);

  const JobSpec job_;
  const DataFacts facts_;
  const Rounds rounds_;

  int64_t evaluated_version_ = 0;
  std::optional<Evaluation> evaluation_;
  EvaluationHistory history_;
  Plateau plateau_;
  std::optional<int64_t> best_version_;
  std::string stop_reason_;
  int64_t final_version_;
  int64_t evaluating_version_ = 0;
  std::map<int64_t, EvaluationReport> pieces_;  // Without scores.
  ScoreHistogram scores_;                       // Of these pieces.
  absl::Time last_piece_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_EVALUATION_PROGRESS_H_
