// The parts of a Replica, and what one computes of a batch.
#ifndef TRIBUTARY_LIBRARY_REPLICA_STATE_H_
#define TRIBUTARY_LIBRARY_REPLICA_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/parameters/arena_layout.h"
#include "tributary/data_parallel.h"
#include "worker/device/device.h"
#include "worker/nn/network.h"

namespace tributary {

// Adds the gradient of a node of the reduction tree after those of all nodes to
// its left. Siblings are replaced by their sum, the left one plus the right
// one.
void AddNodeGradient(ReplicaOutput::NodeGradient node,
                     std::vector<ReplicaOutput::NodeGradient>* nodes);

// What a Replica consists of. Used by one thread at a time.
struct ReplicaState {
  std::string name;
  int64_t input_elements = 0;
  int64_t target_elements = 0;
  int64_t prediction_elements = 0;
  std::unique_ptr<ArenaLayout> layout;
  std::vector<ParameterPlace> parameters;
  std::unique_ptr<Device> device;
  std::unique_ptr<Network> network;
  // In the device's memory; null on the CPU, which reads `weights` of the host.
  Device::Memory own_weights{nullptr, [](void*) {}};
  Device::Memory gradient{nullptr, [](void*) {}};
  const float* weights = nullptr;

  int64_t arena_bytes() const {
    return layout->arena_elements() * static_cast<int64_t>(sizeof(float));
  }
  absl::Status Compute(const NumberedBatch& item, const ApplyOptions& options,
                       ReplicaOutput* output);
  absl::Status Train(const NumberedBatch& item, const ApplyOptions& options,
                     ReplicaOutput* output);
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_REPLICA_STATE_H_
