// The batches that compute threads train on, read ahead and transferred ahead.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINING_BATCHES_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINING_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/data/batch.h"
#include "worker/data/read_ahead.h"
#include "worker/state/work_state.h"
#include "worker/training/threads/compute_thread_items.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns the number of samples (for texts, tokens) that count: those whose
// label is not -1.
int64_t SampleCountOf(const Batch& batch);

// Reads the data of micro-batches ahead, and starts to transfer them to the
// devices of the compute threads before they are needed. Each compute thread
// may call the methods that take its number; no thread may be computing while
// other methods run.
class TrainingBatches {
 public:
  // `setup` must outlive this object.
  explicit TrainingBatches(const TrainingSetup* setup);

  // Starts to read the data of the task's items, and of the same items of the
  // next task.
  void Expect(const Task& task, const ComputeThreadItems& items);
  // Starts to read the data of a micro-batch in a thread of its own.
  void Expect(int64_t step, int micro_batch) {
    read_ahead_.Expect(step, micro_batch);
  }
  // Returns the micro-batch's data: those that the thread's device has, if they
  // belong to this micro-batch, otherwise those that were read ahead. Blocks
  // until they have been read.
  std::shared_ptr<const Batch> Take(int thread, int64_t step, int micro_batch);
  // Like Take, but returns null if the data have not been read. Not with
  // Prefetch.
  std::shared_ptr<const Batch> TryTake(int64_t step, int micro_batch) {
    return read_ahead_.TryTake(step, micro_batch);
  }
  // If the micro-batch's data have been read, starts to transfer them to the
  // thread's device. The micro-batch is expected to be the thread's next one.
  // Never waits for reads.
  void Prefetch(int thread, int64_t step, int micro_batch);
  // Prefetches the micro-batch that the thread is expected to compute next.
  void PrefetchNext(const Task& task, int thread, ComputeThreadItems* items);
  // Forgets what the devices have.
  void Reset() { prefetched_.assign(prefetched_.size(), Prefetched()); }

 private:
  // The batch that a thread's device is prefetching.
  struct Prefetched {
    int64_t step = 0;
    int micro_batch = 0;
    std::shared_ptr<const Batch> batch;  // Null if there is none.

    bool Is(int64_t wanted_step, int wanted_micro_batch) const {
      return batch != nullptr && step == wanted_step &&
             micro_batch == wanted_micro_batch;
    }
  };

  const TrainingSetup& setup_;
  ReadAhead read_ahead_;
  std::vector<Prefetched> prefetched_;  // Indexed by thread.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINING_BATCHES_H_
