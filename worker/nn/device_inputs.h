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

// The samples and the targets of a micro-batch, in host memory. Each element
// has four bytes: it is a float, or a token or label of type int32.
struct MicroBatchInput {
  int64_t samples = 0;
  // [samples, elements of the input, except for vectors]
  const void* input = nullptr;
  // The targets, [samples, LossSpec::TargetElements()]. Null if the loss is not
  // needed.
  const void* target = nullptr;
  // The vectors (see Graph), [samples, Graph::vector_elements()].
  const float* vectors = nullptr;
  // True if this micro-batch is the one that was prefetched last. `input` is
  // then not read, and `target` is read only to count the rows whose label is
  // not -1.
  bool prefetched = false;
};

// Copies the input of a micro-batch to `to`, in host memory: [samples, elements
// of the input], where a sample's vectors follow its other elements.
void CopyInput(const Graph& graph, const MicroBatchInput& micro_batch,
               void* to);

// Transfers micro-batches to a device with its own memory, through pinned host
// memory and on a separate copy stream. The device memory for a micro-batch is
// separate from the memory of the network, so that the next micro-batch is
// transferred while the current one is computed. The host need not wait for the
// transfer.
//
// Owns the host memory and the device memory for the transfer. Not thread-safe:
// only the thread that queues the device's operations may use this object.
class DeviceInputs {
 public:
  // Returns the bytes of device memory that Create allocates for micro-batches
  // of up to `max_samples` samples, or 0 if the device works in host memory.
  static int64_t BytesOf(const Graph& graph, int64_t max_samples,
                         const Device& device);
  // Returns null if BytesOf returns 0. `graph` and `device` must outlive the
  // result.
  // Returns ResourceExhausted if host or device memory does not suffice.
  static absl::StatusOr<std::unique_ptr<DeviceInputs>> Create(
      const Graph& graph, int64_t max_samples, Device* device);
  // Blocks until all copies of this object and all operations of the device are
  // complete.
  ~DeviceInputs();
  DeviceInputs(const DeviceInputs&) = delete;
  DeviceInputs& operator=(const DeviceInputs&) = delete;

  // Starts to transfer the micro-batch. Its host memory is read before Bring
  // returns. Operations queued so far still read the previous micro-batch.
  //
  // Blocks until the previous transfer is complete. That transfer, in turn,
  // waits for the operations that read the micro-batch before it. In training,
  // the previous transfer is normally complete before Bring is called.
  void Bring(const MicroBatchInput& micro_batch);

  // Operations that read input() and target() must be queued between the calls
  // of Await and Release. Await delays them until the transfer that Bring
  // started last is complete; input() and target() then hold the same elements
  // as the micro-batch in host memory (see MicroBatchInput). Release lets the
  // next transfer overwrite them when the operations queued so far are done. If
  // the transfer has failed, operations queued after Await fail, too.
  void Await() { device_->copies()->Await(*copied_); }
  void Release() { device_->copies()->Record(released_.get()); }
  const void* input() const { return memory_.get(); }
  const void* target() const {
    return static_cast<const char*>(memory_.get()) + target_offset_;
  }

 private:
  struct Sizes {
    int64_t input_bytes = 0;   // Per sample.
    int64_t target_bytes = 0;  // Per sample.
    int64_t target_offset = 0;
    int64_t total = 0;
  };
  static Sizes SizesOf(const Graph& graph, int64_t max_samples);

  using HostMemory = std::unique_ptr<char, void (*)(void*)>;

  DeviceInputs(const Graph& graph, const Sizes& sizes, Device* device,
               Device::Memory memory, HostMemory staging);
  absl::Status CreateQueue();
  // Copies bytes of staging_ to the same place of memory_.
  void Copy(int64_t offset, int64_t bytes);

  const Graph& graph_;
  const int64_t input_bytes_;
  const int64_t target_bytes_;
  const int64_t target_offset_;
  Device* const device_;
  const Device::Memory memory_;
  // Host memory from which micro-batches are copied to memory_. It has the same
  // layout as memory_.
  const HostMemory staging_;
  std::shared_ptr<void> pinned_;  // Null if pinning failed; copies still work.
  std::unique_ptr<CopyStream> copies_;
  std::unique_ptr<Event> copied_;  // Reached when the last transfer has ended.
  // Reached when the operations that read the previous micro-batch have ended.
  std::unique_ptr<Event> released_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_DEVICE_INPUTS_H_
