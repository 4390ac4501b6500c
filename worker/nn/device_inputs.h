// Transfer of a micro-batch's samples and targets to a device.
#ifndef TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_
#define TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"

namespace tributary {

// Samples in host memory, as four-byte elements: floats or int32 tokens.
struct MicroBatchInput {
  int64_t samples = 0;
  const void* input = nullptr;   // [samples, input elements]
  const void* target = nullptr;  // [samples, target elements], or null.
  // True if the micro-batch is the last one prefetched. The input is then not
  // read, and the target is read only to count rows.
  bool prefetched = false;
};

// Transfers micro-batches to a device with its own memory, through pinned host
// memory and on a separate copy stream. Their device memory is not part of the
// network's, so that the next micro-batch arrives while the current one is
// computed and the host waits for no copy.
//
// Owns the memory on both sides. Not thread-safe: used by the thread that
// queues the device's operations.
class DeviceInputs {
 public:
  // Returns the bytes of device memory for micro-batches of up to
  // `max_samples`, or 0 if the device works in host memory.
  static int64_t BytesOf(const Graph& graph, int64_t max_samples,
                         const Device& device);
  // Returns null if BytesOf is 0. `device` must outlive the result. Returns
  // ResourceExhausted when device memory is full.
  static absl::StatusOr<std::unique_ptr<DeviceInputs>> Create(
      const Graph& graph, int64_t max_samples, Device* device);
  // Waits for copies in progress.
  ~DeviceInputs();
  DeviceInputs(const DeviceInputs&) = delete;
  DeviceInputs& operator=(const DeviceInputs&) = delete;

  // Starts to transfer the micro-batch. Its host memory is read before Bring
  // returns. The previous micro-batch stays visible to operations queued so
  // far.
  //
  // Blocks until the previous micro-batch has been copied, which in turn
  // happens after Release of the micro-batch before it. In training both are
  // normally complete when Bring is called.
  void Bring(const MicroBatchInput& micro_batch);

  // Await makes input() and target() hold the last transferred micro-batch, in
  // the elements of the host (see MicroBatchInput), for operations queued from
  // now on. Operations queued after Release must not read them. If the transfer
  // has failed, operations queued after Await fail, too.
  void Await() { device_->copies()->Await(*copied_); }
  void Release() { device_->copies()->Record(released_.get()); }
  const void* input() const { return memory_.get(); }
  const void* target() const {
    return static_cast<const char*>(memory_.get()) + target_offset_;
  }

 private:
  struct Sizes {
    size_t input_bytes = 0;   // Per sample.
    size_t target_bytes = 0;  // Per sample.
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
  // Host memory with the same layout.
  const HostMemory staging_;
  std::shared_ptr<void> pinned_;  // Null if pinning failed; copies still work.
  std::unique_ptr<CopyStream> copies_;
  std::unique_ptr<Event> copied_;  // Copying of the last micro-batch.
  // The end of the operations that read the previous micro-batch.
  std::unique_ptr<Event> released_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_
