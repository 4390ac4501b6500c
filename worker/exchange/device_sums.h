// Summation of gradients in device memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_DEVICE_SUMS_H_
#define TRIBUTARY_WORKER_EXCHANGE_DEVICE_SUMS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/numerics/half.h"
#include "common/numerics/loss_sum.h"
#include "common/parameters/arena_layout.h"
#include "worker/device/device.h"

namespace tributary {

// Sums the gradients of one compute thread's micro-batches along the reduction
// tree, a binary tree whose leaves are the micro-batches. The sums are
// bit-identical to the sums of StepGradients.
//
// Two sums are added in device memory if both come from this thread. The other
// sums, which this class calls complete, are copied to an arena of the exchange
// and passed to StepGradients; these are fewer copies than one for each
// micro-batch.
//
// Uses one arena of device memory for each level of the tree. If memory does
// not suffice for all levels, only the lowest levels are added in device
// memory; StepGradients or the server adds the rest.
//
// Not thread-safe: used by the device's thread. Additions are queued like all
// device operations.
class DeviceSums {
 public:
  // Requires that `device` has its own memory. `device` and `layout` must
  // outlive this object. The reduction tree has `tree_leaves` leaves; its sums
  // are rounded to `dtype`. Leaves `spare_bytes` of device memory free for
  // libraries and programs, which allocate later.
  DeviceSums(Device* device, const ArenaLayout* layout, int tree_leaves,
             WireDtype dtype, int64_t spare_bytes);

  // Begins a task that computes each of `micro_batches` once, in ascending
  // order. Discards the state of the previous task. Only the first tasks
  // allocate memory.
  void Begin(const std::vector<int64_t>& micro_batches);

  // Begins a micro-batch of `sample_count` samples. Its gradients will be in
  // `gradients`, an arena in device memory.
  void BeginMicroBatch(int micro_batch, int64_t sample_count, float* gradients);
  // Replaces the `sample_count` of BeginMicroBatch.
  void SetSampleCount(int64_t sample_count);
  // Queues the additions for chunks [first, last). The operations queued so far
  // must compute the final gradients of these chunks.
  void Add(int first, int last);
  // Returns true if the micro-batch completes a sum that must be copied to an
  // arena of the exchange. This is the sum of one of the largest subtrees of
  // the reduction tree whose leaves all belong to the task or, if memory does
  // not suffice, of a smaller subtree.
  bool complete() const { return complete_; }
  // Returns the node of the reduction tree whose sum, in device memory, the
  // micro-batch is added to.
  int node() const { return node_; }
  // Returns the arena that holds the sum of node(). Valid until the next
  // BeginMicroBatch.
  const float* sum() const { return sum_; }
  // Returns the number of samples (for texts, tokens) whose gradients sum()
  // includes.
  int64_t sample_count() const { return sample_count_; }
  // Ends the micro-batch. `loss_sum` is the sum of its losses. Returns the sum
  // of the losses of all micro-batches in sum(), added in the tree's order.
  LossSum EndMicroBatch(LossSum loss_sum);

 private:
  // The sum of a node, which is kept until the sum of the sibling node is
  // known.
  struct Waiting {
    float* arena = nullptr;
    int64_t sample_count = 0;
    LossSum loss_sum;
  };

  // Allocates one more arena. Returns false if memory does not suffice.
  bool Allocate();

  Device* const device_;
  const ArenaLayout* const layout_;
  const int tree_leaves_;
  const WireDtype dtype_;
  const int64_t spare_bytes_;
  std::vector<Device::Memory> arenas_;
  bool full_ = false;  // True once an allocation has failed.

  // State of the current task.
  // Nodes of the reduction tree: the roots of the largest subtrees whose leaves
  // are all micro-batches of the task.
  std::set<int> tops_;
  std::map<int, Waiting> waiting_;  // Indexed by node of the reduction tree.
  std::vector<float*> free_;        // Unused arenas.

  // State of the current micro-batch. `gradients_` is the arena that holds its
  // gradients.
  float* gradients_ = nullptr;
  // Sums to which the gradients of the micro-batch are added: those of its
  // sibling node in the reduction tree and of the siblings of its ancestors,
  // from the lowest level to the highest.
  std::vector<Waiting> siblings_;
  int node_ = 0;
  float* sum_ = nullptr;
  int64_t own_sample_count_ = 0;  // Sample count of the micro-batch alone.
  int64_t sample_count_ = 0;      // Sample count of node_.
  bool complete_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_DEVICE_SUMS_H_
