// What a worker knows of the job at any moment, which versions of which chunks
// it has and what it was dealt, and the one place that decides what it does
// next.
#ifndef TRIBUTARY_WORKER_STATE_WORK_STATE_H_
#define TRIBUTARY_WORKER_STATE_WORK_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/os/shared_memory.h"
#include "common/parameters/parameter_table.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The next thing to do.
struct Task {
  enum class Kind {
    kInitialize,  // Send version 0 of every chunk.
    kReportSynced,
    kRequestStepLease,  // Ask for one more step (asynchronous mode).
    kEvaluate,          // Pieces `items` at `version`.
    kTrain,             // Leaves `items` of step `version`.
    kFinish,
    kFail,  // See status().
  };
  Kind kind = Kind::kFail;
  int64_t version = 0;
  // Ascending.
  std::vector<int64_t> items;
  // Of the deal that the task follows.
  int64_t generation = 0;
  // The step that will probably be next, to read its data ahead; -1: unknown.
  int64_t next_step = -1;
};

// Thread-safe: the exchange writes chunks, the membership sets deals, the
// trainer takes tasks. What the job's consistency mode decides, where weights
// lie and which step may be computed from them, is in the subclasses; what all
// modes share is here.
class WorkState {
 public:
  struct Options {
    // As the servers count them: rounds.
    int64_t steps = 0;
    // Versions to be evaluated: the last, and every so many (0: none between).
    bool evaluates = false;
    int64_t evaluate_every = 0;
  };
  // `layout` must outlive this object.
  WorkState(const Options& options, const ArenaLayout* layout);
  virtual ~WorkState() = default;

  // ---- From the membership.
  void RequestInitialize() ABSL_LOCKS_EXCLUDED(mu_);
  void SetAssignment(const Deal& assignment) ABSL_LOCKS_EXCLUDED(mu_);
  void SetEvaluated(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void SetFinished() ABSL_LOCKS_EXCLUDED(mu_);
  // The first error stays. Ends every wait.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Asynchronous mode only; the others ignore it.
  virtual void AddStepLease(int64_t /*step*/) {}

  // ---- From the exchange.
  // Lets the chunks of `shard` (of `servers`) appear where this worker reads
  // weights from where the server keeps them: two arenas in `memory`, each
  // rounded up to whole pages. To be called before the first BeginWrite for any
  // of them. FailedPrecondition if this mode or the chunks' size do not allow
  // it.
  virtual absl::Status MapChunks(const MappedMemory& memory, int shard,
                                 int servers) = 0;
  enum class Arrival {
    kWrite,  // Write to `*to`, unless it is mapped, then call EndWrite.
    kPark,   // The place is being read: try again when the callback of
             // SetUnparked runs.
    kDrop,   // Older than what is there.
  };
  virtual Arrival BeginWrite(int chunk, int64_t version, float** to) = 0;
  virtual void EndWrite(int chunk, int64_t version) = 0;
  // To be set once, before the first BeginWrite; called without locks held
  // whenever parked chunks may try again.
  void SetUnparked(std::function<void()> unparked) ABSL_LOCKS_EXCLUDED(mu_);
  // Asynchronous mode only; the others ignore it.
  virtual void SetOutcome(const Outcome& /*outcome*/) {}

  // ---- From the trainer.
  // Ends the task before and waits for the next one, at most for as long as the
  // coordinator and the servers are alive: their end is a Fail.
  Task Next() ABSL_LOCKS_EXCLUDED(mu_);
  // The same without a wait; nullopt: there is nothing to do yet.
  std::optional<Task> TryNextForTest() ABSL_LOCKS_EXCLUDED(mu_);
  // The items have been done and sent.
  virtual void MarkDone(const Task& task);
  // Waits until elements [begin, end) are there to compute the task from.
  // False: give the task up and call Next. May be called from several threads
  // at once.
  virtual bool AwaitWeights(const Task& task, int64_t begin, int64_t end) = 0;
  // Whether to give the task up between two parts of it, as AwaitWeights says
  // within one.
  bool GivenUp(const Task& task) const ABSL_LOCKS_EXCLUDED(mu_);
  // The arena that holds, or will hold, this version, until Next.
  virtual const float* Weights(int64_t version) const = 0;
  // Where all that Weights returns lies, in whole pages. Servers' memory is
  // mapped there by the time of the first version that is complete.
  virtual std::vector<absl::Span<char>> WeightMemory() const = 0;
  // The version of the chunk that the task under way is computed from, after
  // AwaitWeights for it. Of use where it is not the task's.
  virtual int64_t BaseVersion(int /*chunk*/) const { return 0; }
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 protected:
  // The oldest of the newest versions of all chunks; -1: some have none.
  virtual int64_t CompleteVersion() const ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // What to compute while the complete version is `version`, which is evaluated
  // if it is to be. False: nothing yet.
  virtual bool DecideTraining(int64_t version, Task* task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  virtual bool MustGiveUp(const Task& task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // The task before is over. True: parked chunks may try again.
  virtual bool OnTaskEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return false; }
  // The task was chosen.
  virtual void OnTaskBegin(const Task& /*task*/)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {}

  // Lets parked chunks try again.
  void Unpark() ABSL_LOCKS_EXCLUDED(mu_);
  bool EvaluationDue(int64_t version) const;
  // Makes `task` the leaves of `step` that were dealt and are not done. False:
  // there are none.
  bool AssignedMicroBatches(int64_t step, Task* task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  const Options& options() const { return options_; }
  const ArenaLayout& layout() const { return *layout_; }
  bool over() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return finished_ || !status_.ok();
  }
  int64_t generation() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return assignment_.generation();
  }

  mutable absl::Mutex mu_;

 private:
  void EndTask() ABSL_LOCKS_EXCLUDED(mu_);
  // True when there is something to do.
  bool Decide(Task* task) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void BeginTask(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const ArenaLayout* const layout_;

  std::function<void()> unparked_ ABSL_GUARDED_BY(mu_);
  bool initialize_ ABSL_GUARDED_BY(mu_) = false;
  bool synced_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  Deal assignment_ ABSL_GUARDED_BY(mu_);
  int64_t evaluated_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  // By version: the leaves computed and the pieces evaluated here.
  std::map<int64_t, std::set<int64_t>> done_micro_batches_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::set<int64_t>> done_pieces_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_WORK_STATE_H_
