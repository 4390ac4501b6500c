// A leaf's samples and targets on their way from the host to a device.
#ifndef TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_
#define TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"

namespace tributary {

// Samples in host memory, in the four-byte elements that the graph takes.
struct MicroBatchInput {
  int64_t samples = 0;
  const void* input = nullptr;   // [samples, input elements]
  const void* target = nullptr;  // [samples, target elements]; null: none.
  // The leaf is the one that was prefetched last: the input is not read, and
  // the target only looked through.
  bool prefetched = false;
};

// Where a device has memory of its own, leaves reach it by way of pinned host
// memory, on a copy stream beside the operations, and lie there in memory that
// is not the network's: so the next leaf comes in while this one is computed,
// and the host waits for no copy.
//
// Owns that memory, on both sides. One thread at a time, with the device's
// operations.
class DeviceInputs {
 public:
  // Of the device's memory, for leaves of up to `max_samples`. 0 where it works
  // in the host's memory.
  static int64_t BytesOf(const Graph& graph, int64_t max_samples,
                         const Device& device);
  // Null where BytesOf is 0. `device` must outlive the object.
  // ResourceExhausted when its memory is full.
  static absl::StatusOr<std::unique_ptr<DeviceInputs>> Create(
      const Graph& graph, int64_t max_samples, Device* device);
  // Waits for copies under way.
  ~DeviceInputs();
  DeviceInputs(const DeviceInputs&) = delete;
  DeviceInputs& operator=(const DeviceInputs&) = delete;

  // Begins to bring the leaf, in place of the one before, which operations so
  // far still find. What it points to is read before this returns. Waits for
  // the copy of the leaf before, which comes after the release of the one
  // before that: in training, both are long done.
  void Bring(const MicroBatchInput& micro_batch);

  // Operations from now on find the leaf that was brought last at input() and
  // target(), in the host's elements, until Release: operations after it must
  // not read them.
  void Await() { device_->Await(*copied_); }
  void Release() { device_->Record(released_.get()); }
  const void* input() const { return memory_.get(); }
  const void* target() const {
    return static_cast<const char*>(memory_.get()) + target_offset_;
  }

 private:
  struct Sizes {
    size_t input_bytes = 0;   // Of a sample.
    size_t target_bytes = 0;  // Of a sample.
    size_t target_offset = 0;
    size_t total = 0;
  };
  static Sizes SizesOf(const Graph& graph, int64_t max_samples);

  using HostMemory = std::unique_ptr<char, void (*)(void*)>;

  DeviceInputs(const Sizes& sizes, Device* device, Device::Memory memory,
               HostMemory staging);
  absl::Status CreateQueue();
  void Copy(size_t offset, const void* from, size_t bytes);

  const size_t input_bytes_;
  const size_t target_bytes_;
  const size_t target_offset_;
  Device* const device_;
  const Device::Memory memory_;
  // The same places on the host.
  const HostMemory staging_;
  std::shared_ptr<void> pinned_;  // Null: copies work all the same.
  std::unique_ptr<CopyStream> copies_;
  std::unique_ptr<Event> copied_;    // The leaf that was brought last.
  std::unique_ptr<Event> released_;  // By the operations on the one before.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_
