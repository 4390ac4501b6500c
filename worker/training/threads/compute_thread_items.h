// Distribution of a task's items over compute threads.
#ifndef TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_ITEMS_H_
#define TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_ITEMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Distributes the items of one task (micro-batches, or pieces of the evaluation
// data) over a worker's compute threads. Each item goes to one thread. Several
// threads may call methods at the same time; each must pass its own thread
// number.
class ComputeThreadItems {
 public:
  enum class Schedule {
    // Thread n starts with item n. A thread that has finished an item takes the
    // next remaining one.
    kDynamic,
    // Each thread receives a contiguous range; all ranges have about the same
    // length.
    kStatic,
    // Each thread takes the next remaining item, but only after the previous
    // item has been started. Items therefore start in order.
    kInOrder,
  };
  ComputeThreadItems(std::vector<int64_t> items, int threads,
                     Schedule schedule = Schedule::kDynamic);

  // Returns the number of threads over which the items are distributed: at most
  // the number of items.
  int threads() const { return static_cast<int>(own_.size()); }
  // Returns the items that are assigned to the thread at the beginning: its
  // range for kStatic, its first item for kDynamic, none for kInOrder.
  std::vector<int64_t> AssignedTo(int thread) const;

  // Returns all items, in the order in which equally fast threads take them.
  std::vector<int64_t> InOrder() const;

  // Returns the thread's next item, or nullopt if none is left. With kInOrder,
  // first blocks until the items that other threads have taken are started (see
  // Started).
  std::optional<int64_t> Take(int thread);
  // Records that the thread has started the item that it has taken, or has
  // abandoned it. Has an effect with kInOrder only.
  void Started(int thread);
  // Returns the item that this thread's next Take will return, and reserves it
  // for the thread. Returns nullopt if none is left. Must not be called with
  // kInOrder.
  std::optional<int64_t> Peek(int thread);

  // Returns the thread's first item, which is the same for every task with the
  // same items. Must not be called with kInOrder.
  int64_t First(int thread) const { return items_[own_[thread].begin]; }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  static constexpr int kNobody = -1;

  // The items that are assigned to one thread at the beginning, as indices into
  // items_.
  struct Own {
    size_t begin = 0;
    size_t end = 0;
    // First item of [begin, end) that the thread has neither taken nor
    // reserved.
    size_t next = 0;
    size_t reserved = kNone;  // Item reserved by Peek; kNone if there is none.
  };

  const std::vector<int64_t> items_;
  const Schedule schedule_;
  std::vector<Own> own_;  // Indexed by thread; accessed by that thread only.
  std::atomic<size_t> next_;  // First item not given to a thread.

  absl::Mutex mu_;
  // With kInOrder: the thread that has taken an item, but not started it yet;
  // kNobody if there is none.
  int starting_ ABSL_GUARDED_BY(mu_) = kNobody;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_ITEMS_H_
