#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/tools/tune/optuna_proposer.h"
#include "deploy/tools/tune/study_writer.h"
#include "deploy/tools/tune/trial_run.h"
#include "deploy/tools/tune/tune_display.h"
#include "deploy/tools/tune/tune_study.h"
#include "deploy/tools/tune/tuner_leases.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

struct TunerOptions {
  int parallel = 1;     // Number of trials that run at the same time.
  int64_t workers = 1;  // Of each trial.
  int servers = 1;
  int64_t threads = 0;  // Of each worker; 0: this machine's cores, divided.
  // By slot, a number below `parallel`: the value of --device for workers.
  std::vector<std::string> devices;
  std::string server_device = "cpu";
  // As in JobLaunch.
  std::string worker_command;
  std::string worker_folder;
  // Where trials share decoded data; empty if they do not.
  std::string data_cache;
  std::string python = "python3";  // For the samplers of Optuna.
  int64_t max_restarts = 10;       // Of processes, for each segment of a trial.
  bool keep_models = false;  // Of all trials; otherwise, of the best one only.
  // If other tuners may share the study: the leases, which must outlive the
  // tuner. Otherwise null.
  TunerLeases* leases = nullptr;
  LogFlags log;
};

// How a search has ended.
struct TuneEnd {
  // OK if the search is done; Cancelled if a signal has stopped it, so that it
  // can be resumed; otherwise the reason why it cannot go on.
  absl::Status status;
  int exit_code = 0;
  int signal = 0;  // The signal that has stopped it; 0 if none has.
};

// Runs the trials of a study on this machine, several at a time. Each trial is
// a job with processes of its own. One thread advances all of them. A trial
// that fails is recorded as failed, with its reason, and the search goes on.
// The first signal pauses all trials at a checkpoint, as JobRunner describes.
//
// Several tuners can share a study. Each of them claims a segment in the
// journal before it trains the segment, and takes over the segments of tuners
// whose leases have ended. A tuner that has lost a segment stops to train it,
// and reports nothing. Which tuner trains a segment does not change the result.
// Not thread-safe.
class Tuner {
 public:
  // The arguments must outlive this object. `signals` must have been created
  // with `with_children` set.
  Tuner(TuneStudy* study, TunerOptions options, SignalQueue* signals,
        TuneDisplay* display);

  // Runs the search to its end, or until a signal arrives. Blocks.
  TuneEnd Run();

 private:
  // Starts what may start. Returns the errors of the journal, those of the
  // sampler, and the system's if a run cannot write its files: all others would
  // fail, too. Returns Cancelled, and sets interrupt_, if a signal arrives
  // while the sampler is awaited.
  absl::Status FillSlots();
  // Starts a segment in a free slot, or records that its job is not valid.
  // Returns Unavailable if another process holds its folder, or the journal.
  absl::Status StartSegment(const Segment& segment);
  absl::StatusOr<JobLaunch> MakeLaunch(const Segment& segment, int slot) const;
  // Adds a trial to the study.
  absl::Status ProposeNext();
  // Returns the segment to start next, except those in `skipped`; nullopt if
  // there is none.
  absl::optional<Segment> NextSegment(const std::vector<Segment>& skipped);
  // In a shared study: ends the runs of segments that others have taken over.
  void DropLostSegments();
  bool IsOwn(const Segment& segment) const;
  // Advances all trials, and records those that have ended.
  absl::Status AdvanceAll(int signal);
  absl::Status Record(const TrialRun& run);
  absl::Status RecordResult(const Segment& segment, const TrialResult& result,
                            const nlohmann::ordered_json& summary);
  absl::Status RecordFailure(const Segment& segment, const std::string& reason);
  // True if the segment has not been reported, by this program or another.
  bool IsAwaited(const Segment& segment) const;
  // Removes the models and checkpoints of trials that are not needed any more.
  void RemoveModels();
  void RemoveModelsOf(const std::string& run) const;
  // Proposes no more trials once the search has taken its time.
  absl::Status CheckTime();
  bool IsRunning(const Segment& segment) const;
  int FreeSlot() const;
  absl::Duration Patience() const;
  // Draws the table, at most twice a second.
  void ShowProgress();
  std::vector<std::string> Table() const;

  TuneStudy& study_;
  StudyWriter writer_;
  const TunerOptions options_;
  SignalQueue& signals_;
  TuneDisplay& display_;
  const absl::Time began_;
  absl::Time shown_at_ = absl::InfinitePast();
  int64_t steps_done_ = 0;  // Since the start of this process.
  std::unique_ptr<OptunaProposer> optuna_;
  std::vector<std::unique_ptr<TrialRun>> slots_;
  int signal_ = 0;  // The first one that has arrived.
  // The signal that has arrived while the sampler was awaited, until signal_
  // is set; 0 if none has.
  int interrupt_ = 0;
  std::string first_failure_;
  std::set<int64_t> without_models_;
  std::set<std::string> waits_;  // The messages about them that were shown.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_H_
