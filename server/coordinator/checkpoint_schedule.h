// Decides when checkpoints are taken, and tracks the checkpoint under way.
#ifndef TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_SCHEDULE_H_
#define TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/shard_answers.h"

namespace tributary {

// Takes one checkpoint at a time, in these stages:
// 1. A folder is created.
// 2. Every server is told the version, a few steps ahead of time.
// 3. Each server writes its files when its chunks reach that version.
// 4. When all servers have done so, the checkpoint is committed.
//
// If a server has already passed the version, or cannot write its files, the
// schedule drops that checkpoint and chooses a later version, if there is one.
// Training never waits for the disk.
//
// A pure state machine; not thread-safe.
class CheckpointSchedule {
 public:
  struct Options {
    // Checkpoints are taken at the versions that are multiples of this number.
    // 0: at none because of its number.
    int64_t every = 0;
    // The job's last version. This version gets a checkpoint too.
    int64_t last = 0;
    int servers = 1;
    // The version of the newest checkpoint when the schedule is created; 0 if
    // there is none. committed() is this version at first, and all checkpoints
    // of the schedule have later versions.
    int64_t first = 0;
    // A checkpoint is also taken when this time has passed since the previous
    // one was committed or has failed, or since the first call of Next.
    // Extended to kRest times the time that servers took to write the previous
    // one. Infinite, with `every` 0: disables all checkpoints, including
    // requested ones, except those of TakeBest.
    absl::Duration interval = absl::InfiniteDuration();
    // The servers whose shard is less than this number hold chunks. The others
    // can save every version at once, which says nothing about the version's
    // existence.
    int holders = std::numeric_limits<int>::max();
  };
  // Servers spend at most about a twentieth of the time on checkpoints that are
  // due by time.
  static constexpr int kRest = 20;

  explicit CheckpointSchedule(const Options& options);

  // Actions for the caller. The comment after an action names the method to
  // which the caller passes the result.
  struct MakeFolder {
    int64_t version = 0;
  };  // Result: OnFolder.
  struct OrderSnapshots {
    int64_t version = 0;
    std::string folder;
  };  // Results of the servers: OnReport.
  struct Commit {
    int64_t version = 0;
    std::string folder;
    std::vector<CheckpointFile> files;
    // True if the checkpoint is of the best version (see TakeBest), and false
    // for all other checkpoints.
    bool best = false;
  };  // Result: OnCommitted.
  struct Discard {
    std::string folder;
  };
  // Reports that a checkpoint failed. Not returned if the checkpoint before it
  // failed too.
  struct Warn {
    int64_t version = 0;
    std::string message;
  };
  using Action =
      std::variant<MakeFolder, OrderSnapshots, Commit, Discard, Warn>;
  // Returns the next action, or nullopt if none is due. `completed` is the
  // newest version that all servers are known to have reached. `earliest` is
  // the first version that may be chosen. `computed` is true if all steps and
  // the last evaluation are done: the checkpoint of the last version is
  // committed only then, so that it contains the last evaluation, except after
  // OnIdle. `now` never
  // decreases from one call to the next.
  std::optional<Action> Next(int64_t completed, int64_t earliest, bool computed,
                             absl::Time now);

  void OnFolder(const absl::StatusOr<std::string>& folder);
  // Handles a server's report about its part of the checkpoint under way.
  // Ignores reports about other versions.
  void OnReport(int shard, const SnapshotReport& report);
  void OnCommitted(const absl::Status& status);

  // Requests a checkpoint at the next possible version, in addition to the
  // regular checkpoints. If a server has already copied the version of the
  // checkpoint under way, that checkpoint satisfies the request; otherwise the
  // requested checkpoint replaces it, unless TakeBest has requested the
  // checkpoint under way. No effect if no more checkpoints follow.
  void TakeSoon();
  // Requests a checkpoint as TakeSoon does, because the job is being stopped.
  // No regular checkpoint follows the requested one.
  void Drain();
  // Call this several times a second while no worker computes. Takes the
  // requested checkpoint at version `completed`, because no later version will
  // be computed. If that is the last version, the checkpoint does not wait for
  // its evaluation, which is still due when the job resumes from there. The
  // checkpoint fails if a chunk has a newer version. No effect if no checkpoint
  // is requested: one that is due by time waits for a worker. See Next for the
  // arguments.
  void OnIdle(int64_t completed, int64_t earliest);

  // Requests a checkpoint of `version`, the version with the best evaluation so
  // far. All servers must have this version. The caller must not let workers
  // compute later steps until best_copied() returns true. Drops a checkpoint of
  // a later version that has not begun to be copied. The checkpoint is
  // independent of the others: it does not change committed().
  void TakeBest(int64_t version);
  // Returns false while a checkpoint that TakeBest has requested waits for
  // servers to copy it. Returns true if all servers have copied it, if it has
  // failed, or if there was no request.
  bool best_copied() const;
  // Makes `version`, which all servers have, the job's last version: the job
  // stops early. Drops the checkpoint under way if its version is later.
  void EndAt(int64_t version);

  // Returns the version of the checkpoint under way, or -1 if there is none.
  int64_t version() const { return stage_ == Stage::kIdle ? -1 : version_; }
  // Returns true if each server has copied version() for the checkpoint, or has
  // already computed a later version. Later steps may then be applied.
  bool taken() const { return answers_.taken(); }
  // Returns true if no more checkpoints follow, because checkpoints are
  // disabled or because the final checkpoint is committed or has failed. The
  // final checkpoint is that of the last version, or the one that Drain
  // requested. Returns false while an action is left to return.
  bool over() const;
  // Returns true while a checkpoint that TakeSoon or Drain has requested, or
  // that is due by time, is neither committed nor has failed.
  bool soon() const { return soon_; }
  int64_t committed() const { return committed_; }
  int64_t failures() const { return failures_; }
  // Returns the reason for the last failure; empty if no checkpoint has failed.
  const std::string& failure() const { return failure_; }

 private:
  enum class Stage { kIdle, kFolder, kOrder, kTaking, kCommit, kCommitting };

  // Returns the first version that servers have certainly not passed when they
  // receive an order.
  int64_t Soonest(int64_t completed, int64_t earliest) const;
  // Returns the version of the next checkpoint, or nullopt if there is none.
  std::optional<int64_t> Due(int64_t completed, int64_t earliest) const;
  // Measures the time to the next checkpoint that is due by time. Requests a
  // checkpoint, as TakeSoon does, if one is due by time, and no other comes as
  // soon.
  void TakeIfTimeIsUp(int64_t completed, int64_t earliest, absl::Time now);
  void Fail(const std::string& message);
  // Ends a request for a checkpoint soon. Called when a checkpoint was
  // committed or has failed. If Drain was called, no more checkpoints follow.
  void EndSoon();
  // Drops the checkpoint under way, so that an earlier version can be chosen.
  // Reports about a dropped checkpoint are ignored.
  void Drop();
  // Drops the checkpoint under way if its version is later than `version`.
  void DropLaterThan(int64_t version);
  // Begins a checkpoint of `version`.
  MakeFolder Begin(int64_t version);

  Options options_;
  Stage stage_ = Stage::kIdle;
  int64_t version_;
  std::string folder_;
  ShardAnswers answers_;

  // The time at which a checkpoint becomes due by time; absent until it is
  // measured.
  std::optional<absl::Time> time_due_;
  // The time at which all servers had copied the checkpoint under way.
  std::optional<absl::Time> taken_at_;

  bool soon_ = false;
  // True if the checkpoint that is wanted soon was not requested, but is due by
  // time.
  bool by_time_ = false;
  // True if no request of TakeSoon may replace the checkpoint under way: its
  // version was chosen for such a request, or TakeBest has requested it.
  bool chosen_soon_ = false;
  // Version of a checkpoint that TakeBest has requested and that has not begun;
  // -1 if there is none.
  int64_t best_due_ = -1;
  // True if TakeBest has requested the checkpoint under way.
  bool takes_best_ = false;
  bool draining_ = false;
  bool drained_ = false;
  // Version of the checkpoint that OnIdle was last asked to take, or -1 if it
  // has not been asked.
  int64_t idle_version_ = -1;
  // True if OnIdle has requested a checkpoint at idle_version_, and this
  // checkpoint has not begun.
  bool idle_due_ = false;
  // Number of times that OnIdle has set idle_due_ for the pending request.
  int idle_tries_ = 0;
  // True if OnIdle has requested the checkpoint under way although the last
  // evaluation may be missing.
  bool commits_unevaluated_ = false;
  bool last_done_ = false;
  int64_t lead_;
  int64_t committed_;
  int64_t failures_ = 0;
  std::string failure_;
  bool warned_ = false;
  bool warning_due_ = false;
  std::string discard_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_SCHEDULE_H_
