// What a worker knows of the job at any moment, which versions of which chunks
// it has and what it was dealt, and the one place that decides what it does
// next.
#ifndef TRIBUTARY_WORKER_WORK_STATE_H_
#define TRIBUTARY_WORKER_WORK_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/parameter_table.h"
#include "common/shared_memory.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The next thing to do.
struct Task {
  enum class Kind {
    kInitialize,  // Send version 0 of every chunk.
    kReportSynced,
    kEvaluate,  // Pieces `items` at `version`.
    kTrain,     // Leaves `items` of step `version`.
    kFinish,
    kFail,  // See status().
  };
  Kind kind = Kind::kFail;
  int64_t version = 0;
  // Ascending.
  std::vector<int64_t> items;
  // Of the deal that the task follows.
  int64_t generation = 0;
};

// Thread-safe: the exchange writes chunks, the membership sets deals, the
// trainer takes tasks.
//
// Holds two arenas of weights: version v lies in arena v % 2, so while chunks
// of version v + 1 arrive version v stays whole, and a leaf that is dealt anew
// because its worker died can still be computed. A chunk of version v + 2
// proves that step v is complete everywhere (see ParameterStore), so
// overwriting version v is safe as soon as nobody reads it: the version of the
// task under way is pinned, and its successor's chunks are parked until it
// ends. A server on this host may have its chunks mapped into the arenas: then
// they are overwritten without asking, the rest holds all the same.
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

  // ---- From the membership.
  void RequestInitialize() ABSL_LOCKS_EXCLUDED(mu_);
  void SetDeal(const Deal& deal) ABSL_LOCKS_EXCLUDED(mu_);
  void SetEvaluated(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void SetFinished() ABSL_LOCKS_EXCLUDED(mu_);
  // The first error stays. Ends every wait.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- From the exchange.
  // Lets the chunks of `shard` (of `servers`) appear in the arenas from where
  // the server keeps them: two arenas in `memory`, each rounded up to whole
  // pages. To be called before the first BeginWrite for any of them.
  // FailedPrecondition if chunks are not whole pages.
  absl::Status MapChunks(const MappedMemory& memory, int shard, int servers);
  enum class Arrival {
    kWrite,  // Write to `*to`, unless it is mapped, then call EndWrite.
    kPark,   // The place is being read: try again when the callback of
             // SetUnparked runs.
    kDrop,   // Older than what is there.
  };
  Arrival BeginWrite(int chunk, int64_t version, float** to)
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int chunk, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // To be set once, before the first BeginWrite; called without locks held
  // whenever parked chunks may try again.
  void SetUnparked(std::function<void()> unparked) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- From the trainer.
  // Ends the task before (its version is no longer pinned) and waits for the
  // next one, at most for as long as the coordinator and the servers are alive:
  // their end is a Fail.
  Task Next() ABSL_LOCKS_EXCLUDED(mu_);
  // The items have been done and sent.
  void MarkDone(const Task& task) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until elements [begin, end) are there at the task's version. False:
  // give the task up and call Next.
  bool AwaitWeights(const Task& task, int64_t begin, int64_t end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Whether to give the task up between two parts of it, as AwaitWeights says
  // within one.
  bool GivenUp(const Task& task) const ABSL_LOCKS_EXCLUDED(mu_);
  // The arena that holds, or will hold, this version.
  const float* Weights(int64_t version) const {
    return reinterpret_cast<const float*>(arenas_[version % 2].data());
  }
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Slot {
    int64_t version = -1;
    int present = 0;              // Chunks at `version`.
    std::vector<int64_t> chunks;  // Version of each chunk; -1: none.
  };

  int64_t CompleteVersion() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool EvaluationDue(int64_t version) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // True when there is something to do.
  bool Decide(Task* task) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool DecideTraining(int64_t version, Task* task) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool HasRange(int64_t version, int first, int last) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool MustGiveUp(const Task& task) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const Options options_;
  const ArenaLayout* const layout_;
  const PrivatePages arenas_[2];

  mutable absl::Mutex mu_;
  Slot slots_[2] ABSL_GUARDED_BY(mu_);
  int64_t pinned_ ABSL_GUARDED_BY(mu_) = -1;
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> unparked_ ABSL_GUARDED_BY(mu_);

  bool initialize_ ABSL_GUARDED_BY(mu_) = false;
  bool synced_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  Deal deal_ ABSL_GUARDED_BY(mu_);
  int64_t evaluated_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  // By version: the leaves computed and the pieces evaluated here.
  std::map<int64_t, std::set<int64_t>> done_leaves_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::set<int64_t>> done_pieces_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_WORK_STATE_H_
