// When checkpoints are taken, and what is still missing of the one under way.
#ifndef TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_SCHEDULE_H_
#define TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// One checkpoint at a time: a folder is made, every server is told the version,
// long enough before it that all hear of it in time, each writes its files when
// its chunks have come to that version, and when all have, the whole is
// committed. A version that some server had passed already is given up for a
// later one, and so is one whose files could not be written; training never
// waits. A pure state machine; not thread-safe.
class CheckpointSchedule {
 public:
  struct Options {
    // Versions that are multiples of this; 0: none, not even on request.
    int64_t every = 0;
    int64_t last = 0;  // The job's last version, which is always taken.
    int servers = 1;
    // Of the checkpoint that training goes on from.
    int64_t first = 0;
  };
  explicit CheckpointSchedule(const Options& options);

  // What the caller is to do now.
  struct MakeFolder {
    int64_t version = 0;
  };  // Answer: OnFolder.
  struct OrderSnapshots {
    int64_t version = 0;
    std::string folder;
  };  // Answers: OnReport.
  struct Commit {
    int64_t version = 0;
    std::string folder;
    std::vector<CheckpointFile> files;
  };  // Answer: OnCommitted.
  struct Discard {
    std::string folder;
  };
  struct Warn {  // A checkpoint failed; the one before did not.
    int64_t version = 0;
    std::string message;
  };
  using Action =
      std::variant<MakeFolder, OrderSnapshots, Commit, Discard, Warn>;
  // `completed`: steps known to be applied everywhere. A new version is chosen
  // from `earliest` on. The last one is committed only when all is `computed`,
  // the last evaluation included: then it is all that is needed of the job.
  std::optional<Action> Next(int64_t completed, int64_t earliest,
                             bool computed);

  void OnFolder(const absl::StatusOr<std::string>& folder);
  // Answers to earlier orders are ignored.
  void OnReport(int shard, const SnapshotReport& report);
  void OnCommitted(const absl::Status& status);

  // Takes one at the next possible version; one that is being taken will do.
  void TakeSoon();
  // The same, and none after it: the job ends early.
  void Drain();
  // To be called now and then while no worker computes. What TakeSoon wants is
  // taken at `completed` then, because nothing will come to a later version; it
  // fails if some chunk has gone beyond it, and is done if it is committed
  // already. The arguments are those of Next.
  void Rest(int64_t completed, int64_t earliest, bool computed);

  // The version under way; -1: none.
  int64_t version() const { return stage_ == Stage::kIdle ? -1 : version_; }
  // All servers have copied it, so that they may go on beyond it.
  bool taken() const { return taken_ == options_.servers; }
  // Nothing more will come: the last version, or the one that Drain asked for,
  // is committed or has failed.
  bool over() const;
  // TakeSoon is not done yet.
  bool soon() const { return soon_; }
  int64_t committed() const { return committed_; }
  int64_t failures() const { return failures_; }
  // Of the last failure.
  const std::string& failure() const { return failure_; }

 private:
  enum class Stage { kIdle, kFolder, kOrder, kTaking, kCommit, kCommitting };

  // The version that is due next; nullopt: none.
  std::optional<int64_t> Due(int64_t completed, int64_t earliest) const;
  void Fail(const std::string& message);
  void FailAtRest(int64_t completed, const std::string& message);
  // No more is to be done for TakeSoon or Drain.
  void EndSoon();
  // Leaves one that was chosen for a later version; its answers will be
  // ignored.
  void GiveUpLater();

  const Options options_;
  Stage stage_ = Stage::kIdle;
  int64_t version_;
  std::string folder_;
  std::vector<bool> answered_;  // By shard.
  int taken_ = 0;
  int missing_ = 0;
  bool passed_ = false;
  std::string error_;  // Of this checkpoint.
  std::vector<CheckpointFile> files_;

  bool soon_ = false;
  bool chosen_soon_ = false;  // The version under way was, for that.
  bool draining_ = false;
  bool drained_ = false;
  int64_t rest_ = -1;      // The version to take at rest.
  bool rest_due_ = false;  // Now; else it was tried, and Rest says when again.
  int rests_ = 0;          // Tries.
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
