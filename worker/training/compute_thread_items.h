// Which lane does which part of a task.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_ITEMS_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_ITEMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tributary {

// The items of one task, each for one lane. Lanes are threads: each calls with
// its own number, at the same time as others.
class ComputeThreadItems {
 public:
  enum class Schedule {
    // A lane's first item is the one of its number; the others are for whoever
    // is free first.
    kDynamic,
    // Each lane has a run of neighbours, all of about the same length.
    kStatic,
  };
  ComputeThreadItems(std::vector<int64_t> items, int threads,
                     Schedule schedule = Schedule::kDynamic);

  // As many as have a first item.
  int threads() const { return static_cast<int>(own_.size()); }
  // What the lane was dealt at first.
  std::vector<int64_t> AssignedTo(int thread) const;

  // All of them, in the order in which lanes that are equally fast take them.
  std::vector<int64_t> InOrder() const;

  // What the lane does next; none: there is nothing left.
  std::optional<int64_t> Take(int thread);
  // What Take will say, from now on reserved for the lane.
  std::optional<int64_t> Peek(int thread);

  // The lane's first item: also of the next task, if it has the same items.
  int64_t First(int thread) const { return items_[own_[thread].begin]; }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Places in items_.
  struct Own {
    size_t begin = 0;
    size_t end = 0;
    // The first one that was not reserved.
    size_t next = 0;
    size_t reserved = kNone;  // kNone: none yet.
  };

  const std::vector<int64_t> items_;
  std::vector<Own> own_;      // By lane, each its own thread's.
  std::atomic<size_t> next_;  // The first place that is no lane's.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_THREAD_ITEMS_H_
