// State of a worker's job: chunk versions, assignments, and the decision of
// what to do next.
#ifndef TRIBUTARY_WORKER_STATE_WORK_STATE_H_
#define TRIBUTARY_WORKER_STATE_WORK_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/chunk_ranges.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/state/weights_sink.h"

namespace tributary {

// A unit of work for the trainer, such as training on some micro-batches of a
// step.
struct Task {
  enum class Kind {
    kInitialize,        // Send version 0 of every chunk.
    kReportSynced,      // Report that all chunks of `version` have arrived.
    kRequestStepLease,  // Request a further step (asynchronous mode).
    kEvaluate,          // Evaluate pieces `items` at `version`.
    kTrain,             // Train micro-batches `items` of step `version`.
    kFinish,            // End without an error: the job is done.
    kFail,              // End with the error that status() returns.
  };
  Kind kind = Kind::kFail;
  int64_t version = 0;
  // What to compute: indices of micro-batches (kTrain) or of pieces of the
  // evaluation data (kEvaluate), in ascending order.
  std::vector<int64_t> items;
  // The factor of the learning rate of a kTrain task; see Evaluated.
  double rate_factor = 1;
  // Generation of the assignment that the task belongs to. Each new assignment
  // has a higher generation.
  int64_t generation = 0;
  // The expected next step, whose data should be read ahead, or -1 if unknown.
  int64_t next_step = -1;
};

// Decides the worker's next task. The exchange writes chunks of weights, the
// membership client sets the assignment (which micro-batches this worker
// computes), and the trainer takes tasks. Subclasses implement the consistency
// mode: where weights are stored and which steps may be computed from them.
// Fail ends every wait.
//
// Thread-safe.
class WorkState : public WeightsSink {
 public:
  struct Options {
    // Number of rounds of the job. A round is one step or, with local SGD,
    // several local steps; servers count each round as one step.
    int64_t steps = 0;
    // True if the job evaluates the model: at the last version of the weights
    // and, unless `evaluate_every` is 0, at every other positive version that
    // is a multiple of `evaluate_every`.
    bool evaluates = false;
    int64_t evaluate_every = 0;
    // The chunks whose weights the worker receives. A version is complete when
    // these have arrived. Must contain all chunks except in modes `synchronous`
    // and `local_steps`.
    ChunkRanges chunks;
    // True if the worker fetches the weights of some chunks at a time. Only in
    // modes `synchronous` and `local_steps`.
    bool fetches = false;
    // In jobs with tables, the number of servers; otherwise 0. A version is
    // complete only when SetTablesComplete was called for all servers. Not in
    // mode `stale_synchronous`.
    int table_servers = 0;
  };
  // Creates the state that implements the job's consistency mode, such as
  // `synchronous`. `job` must be resolved (see ResolveJob). `layout` must
  // outlive the result.
  static std::unique_ptr<WorkState> Create(const JobSpec& job,
                                           const Options& options,
                                           const ArenaLayout* layout);
  // `layout` must outlive this object.
  WorkState(const Options& options, const ArenaLayout* layout);

  // ---- Called by the membership client.
  // Requests a kInitialize task: this worker must send version 0.
  void RequestInitialize() ABSL_LOCKS_EXCLUDED(mu_);
  // Replaces the current assignment (the micro-batches and pieces of the
  // evaluation data that this worker computes) if `assignment` has a higher
  // generation. If the worker computes stages of a pipeline, the task under way
  // is given up, and everything from step Deal.first_step on is computed again,
  // because the workers of the other stages need it.
  void SetAssignment(const Deal& assignment) ABSL_LOCKS_EXCLUDED(mu_);
  // Records that `step` is complete on all servers, so that no worker computes
  // it again. Needed only in pipelines.
  void SetStepComplete(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Records that the evaluation of a version is complete. A worker that
  // computes stages of a pipeline still evaluates its pieces, for which the
  // workers of other stages may wait, unless the assignment says the same.
  // `rate_factor` is Evaluated.rate_factor.
  void SetEvaluated(int64_t version,
                    std::optional<double> rate_factor = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the job's last version, which is Options::steps unless the job stops
  // early. Call it before SetFinished.
  void SetLastVersion(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Records that the job is done.
  void SetFinished() ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the callback that runs when the job is done, and when the state fails:
  // it ends waits of the task under way. It must not block.
  void SetOver(std::function<void()> over) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds a step that this worker has leased and must compute. Ignored except in
  // asynchronous mode.
  virtual void AddStepLease(int64_t /*step*/) {}

  // ---- Called by the exchange: the WeightsSink.
  void SetUnparked(std::function<void()> unparked) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void SetOutcome(const Outcome& /*outcome*/) override {}
  void SetTablesComplete(int shard, int64_t version) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Called by the trainer.
  // Ends the previous task, blocks until there is a new one, and returns it.
  // Returns a kFail task after an error, such as the loss of the coordinator or
  // a server.
  Task Next() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the previous task and returns a new one, or nullopt if there is none
  // yet. Never blocks.
  std::optional<Task> TryNextForTest() ABSL_LOCKS_EXCLUDED(mu_);
  // Records that the trainer has computed and sent the task's items
  // (micro-batches, or pieces of the evaluation data). In a pipeline, no effect
  // if the assignment has changed meanwhile.
  virtual void MarkDone(const Task& task);
  // Blocks until the task can read elements [begin, end) of its weights.
  // Returns false if the task must be given up; the caller then calls Next. May
  // be called from several threads at once.
  virtual bool AwaitWeights(const Task& task, int64_t begin, int64_t end) = 0;
  // If the worker fetches weights: announces that the task needs the chunk.
  // Returns true if the exchange must fetch this version.
  virtual bool Want(int /*chunk*/, int64_t /*version*/) { return false; }
  // Frees the memory of a chunk of the task's weights.
  virtual void Release(int /*chunk*/) {}
  // Makes Next wait for the end of the job: the trainer computes no more.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the task must be given up, for example because its step is
  // already complete or the job has ended. Call this during work that does not
  // call AwaitWeights, such as the steps of local SGD; AwaitWeights reports the
  // same.
  bool GivenUp(const Task& task) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the arena, a buffer with all parameters, for this version of the
  // weights. The pointer is valid until the next call of Next.
  const float* Weights(int64_t version) const override = 0;
  // Returns the host memory of all arenas that Weights may return, as whole
  // pages, in order to pin it. All pages are allocated, or are when they are
  // pinned: a GPU would not see what is written to pages that are allocated
  // later. Returns nothing if SetArenas has replaced the arenas. Call after the
  // first version is complete; before that, WeightsSink::MapChunks may replace
  // pages with a server's memory.
  virtual std::vector<absl::Span<char>> WeightMemory() const = 0;

 protected:
  // Returns the oldest of the newest versions of chunks and tables, which is
  // the newest version that all of them have reached. Returns -1 if one of them
  // has no version.
  virtual int64_t CompleteVersion() const ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // Returns true if all chunks that the worker receives are present at this
  // version. May return false for other versions than the newest complete one
  // in modes that pipelines do not use.
  virtual bool Holds(int64_t version) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return version == CompleteVersion();
  }
  // Called when no evaluation is due; `version` is CompleteVersion(). Sets
  // `*task` to the next training task or, in asynchronous mode, to a request
  // for a step lease. Returns false if there is nothing to do yet.
  virtual bool DecideTraining(int64_t version, Task* task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // Returns true if the task under way must be given up.
  virtual bool MustGiveUp(const Task& task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // Called when a task ends. Returns true if BeginWrite may be retried for
  // parked chunks.
  virtual bool OnTaskEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return false; }
  // Called when Next has chosen `task`, before Next returns.
  virtual void OnTaskBegin(const Task& /*task*/)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {}

  // Returns the newest version of the tables of which all servers have all
  // contributions; without tables, the largest number.
  int64_t TablesVersion() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Runs the SetUnparked callback.
  void Unpark() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the newest version up to `version` that the job evaluates; 0 if
  // there is none.
  int64_t LastEvaluationDue(int64_t version) const;
  bool EvaluationDue(int64_t version) const {
    return version > 0 && LastEvaluationDue(version) == version;
  }
  // Sets `task` to the assigned micro-batches of `step` that are not done.
  // Returns false if there are none, or the step is complete.
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
  // Returns true if `task`, which computes stages of a pipeline, must be given
  // up, because the workers of other stages do not compute it any more.
  bool LeftByPeers(const Task& task) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;

 private:
  // Returns true if the assignment is part of a pipeline.
  bool staged() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return assignment_.stage_end() > 0;
  }
  void KeepRateFactor(int64_t version, double factor)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double RateFactorOf(int64_t step) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void EndTask() ABSL_LOCKS_EXCLUDED(mu_);
  // Sets `*task` to the next task and returns true, or returns false if there
  // is nothing to do yet.
  bool Decide(Task* task) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void BeginTask(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const ArenaLayout* const layout_;

  std::function<void()> unparked_ ABSL_GUARDED_BY(mu_);
  std::function<void()> over_ ABSL_GUARDED_BY(mu_);
  bool initialize_ ABSL_GUARDED_BY(mu_) = false;
  // The version that this worker has reported as Synced; -1: none yet.
  int64_t synced_version_ ABSL_GUARDED_BY(mu_) = -1;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool awaits_end_ ABSL_GUARDED_BY(mu_) = false;
  int64_t last_version_ ABSL_GUARDED_BY(mu_);
  Deal assignment_ ABSL_GUARDED_BY(mu_);
  int64_t evaluated_ ABSL_GUARDED_BY(mu_) = 0;
  // Factors of the learning rate, indexed by the first version for which they
  // hold: the newest ones.
  std::map<int64_t, double> rate_factors_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  // What SetTablesComplete was called with, by server.
  std::vector<int64_t> tables_complete_ ABSL_GUARDED_BY(mu_);
  // Indexed by version of the weights: the micro-batches that this worker has
  // computed and, in done_pieces_, the pieces of the evaluation data that it
  // has evaluated.
  std::map<int64_t, std::set<int64_t>> done_micro_batches_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::set<int64_t>> done_pieces_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_WORK_STATE_H_
