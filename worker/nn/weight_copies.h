// Copies of the weights in the precision of matrix products.
#ifndef TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_
#define TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/arena_layout.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_part.h"

namespace tributary {

// Copies of the parameters that layers use in matrix products, rounded to
// bfloat16, for devices with Precision::kBfloat16. Each copy is made by the
// first call of Get after Renew. On other devices, this object holds no copies,
// and Get returns the weights themselves.
//
// May be shared by networks of the same graph and the same weights, either on
// devices that work in host memory or on a single device with its own memory.
// The queue of a device with its own memory runs a copy before the operations
// that read it, so making copies never blocks the host.
class WeightCopies {
 public:
  // Returns the size in bytes of the device memory that Prepare allocates.
  static int64_t BytesOf(const Graph& graph, const ArenaLayout& layout,
                         const Device& device, const NetworkPart& part = {});

  // Must be called once for each network, before Renew and Get. The first call
  // allocates memory of `device`, so this object must be destroyed before that
  // device. Copies only the parameters of the layers of `part`. Returns
  // ResourceExhausted if memory does not suffice.
  absl::Status Prepare(const Graph& graph, const ArenaLayout& layout,
                       Device* device, const NetworkPart& part = {});

  // Invalidates all copies. Must be called when the weights have changed. No
  // network may be using a copy.
  void Renew();

  // Returns the weights of parameter number `parameter` of the graph's table,
  // in the device's number format. The parameter must be an operand of matrix
  // products. `from` points to its weights in float32. May be called from any
  // thread, with that thread's device. Blocks while a different thread makes
  // the copy.
  const Real* Get(Device* device, int parameter, const float* from);

  // Returns the bytes of device memory that this object has allocated.
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct Copy {
    int64_t size = 0;  // Number of elements; 0 if not used in products.
    Real* place = nullptr;
    absl::Mutex mu;
    bool made ABSL_GUARDED_BY(mu) = false;
  };

  // The fields below are constant after the first Prepare.
  std::vector<std::unique_ptr<Copy>> copies_;  // Indexed by parameter.
  Device::Memory memory_{nullptr, [](void*) {}};
  int64_t memory_bytes_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_
