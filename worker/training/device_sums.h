// Sums of gradients that are made where the gradients are: in a device's own
// memory.
#ifndef TRIBUTARY_WORKER_TRAINING_DEVICE_SUMS_H_
#define TRIBUTARY_WORKER_TRAINING_DEVICE_SUMS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/parameter_table.h"
#include "worker/device/device.h"

namespace tributary {

// Adds up the leaves that one lane computes, in the order of the reduction tree
// and with the bits of SubtreeReducer, to which only whole sums go on: one copy
// from the device for each, in place of one for each leaf.
//
// It takes an arena of the device's memory for each level of the tree. Where
// there is less, the sums of lower nodes leave the device, and the rest is
// added on the host.
//
// One thread at a time, that of the device. Additions are queued like any
// operation.
class DeviceSums {
 public:
  // `device`, which has memory of its own, and `layout` must outlive the sums.
  // Nodes of the tree, of `tree_leaves`, are rounded to `dtype`.
  DeviceSums(Device* device, const ArenaLayout* layout, int tree_leaves,
             WireDtype dtype);

  // Begins a task in which the lane computes `micro_batches`, ascending, each
  // of them once; what was under way is forgotten. Allocates in the first tasks
  // alone.
  void Begin(const std::vector<int64_t>& micro_batches);

  // The next leaf is computed now, from `sample_count` samples; its gradients
  // will be in `gradients`, an arena of the device's memory.
  void BeginMicroBatch(int micro_batch, int64_t sample_count, float* gradients);
  // Queues the additions for its chunks [first, last), which the operations so
  // far leave final.
  void Add(int first, int last);
  // Whether the leaf completes a sum that is to be taken to the host.
  bool complete() const { return complete_; }
  // What the leaf is part of now: the node, the arena that has, or will have,
  // its sum (until the next leaf), and its samples.
  int node() const { return node_; }
  const float* sum() const { return sum_; }
  int64_t sample_count() const { return sample_count_; }
  // The leaf is computed. Returns the loss of the node's leaves, in the tree's
  // order.
  double EndMicroBatch(double loss_sum);

 private:
  // A sum that waits for its sibling.
  struct Waiting {
    float* arena = nullptr;
    int64_t sample_count = 0;
    double loss_sum = 0;
  };

  // One more arena, if there is memory for it.
  bool Allocate();

  Device* const device_;
  const ArenaLayout* const layout_;
  const int tree_leaves_;
  const WireDtype dtype_;
  std::vector<Device::Memory> arenas_;
  bool full_ = false;  // There was no memory for one more.

  // Of the task.
  std::set<int> tops_;  // Nodes that are no part of a larger one here.
  std::map<int, Waiting> waiting_;  // By node.
  std::vector<float*> free_;        // Arenas.

  // Of the leaf.
  float* gradients_ = nullptr;
  std::vector<Waiting> siblings_;  // From the leaf's up.
  int node_ = 0;
  float* sum_ = nullptr;
  int64_t sample_count_ = 0;
  bool complete_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_DEVICE_SUMS_H_
