// The weights as matrix products read them.
#ifndef TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_
#define TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/parameter_table.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"

namespace tributary {

// On devices of Precision::kBfloat16, rounded copies of the parameters that
// layers use in products, each made when it is first asked for after Renew. On
// others it holds nothing, and gives the weights themselves.
//
// May be shared by networks of the same graph whose weights are the same, on
// devices that share their memory.
class WeightCopies {
 public:
  // Of device memory, that Prepare takes.
  static int64_t BytesOf(const Graph& graph, const ArenaLayout& layout,
                         const Device& device);

  // Before anything else, and once for each network: the first call allocates
  // the memory, which must be freed before `device`. ResourceExhausted if there
  // is none.
  absl::Status Prepare(const Graph& graph, const ArenaLayout& layout,
                       Device* device);

  // The weights have changed: all copies are out of date. Nobody may be using
  // them.
  void Renew();

  // Parameter number `parameter` of the table, one that is used in products;
  // its weights are at `from`. Any thread, with its own device; waits while
  // another thread makes the copy.
  const Real* Get(Device* device, int parameter, const float* from);

  // Of device memory.
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct Copy {
    int64_t size = 0;  // Elements; 0: not used in products.
    Real* place = nullptr;
    absl::Mutex mu;
    bool made ABSL_GUARDED_BY(mu) = false;
  };

  // Constant after the first Prepare.
  std::vector<std::unique_ptr<Copy>> copies_;  // By parameter.
  Device::Memory memory_{nullptr, [](void*) {}};
  int64_t memory_bytes_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_WEIGHT_COPIES_H_
