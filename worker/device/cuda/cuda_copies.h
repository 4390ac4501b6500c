// Events and copy streams of a GPU.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_COPIES_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_COPIES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/copies.h"
#include "worker/device/cuda/cuda_context.h"

namespace tributary::cuda {

// An event on a GPU. Done, Wait and the destructor make this GPU the calling
// thread's current CUDA device. An error of the stream that recorded the event
// is returned by Done and Wait, and becomes the error of streams that wait for
// the event.
class CudaEvent final : public Event {
 public:
  // Creates an event on GPU number `ordinal`, which must exist.
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create(int ordinal);
  // Returns an event that has `error`, as if a stream that has failed with it
  // had recorded the event. The event must not be recorded.
  static std::unique_ptr<CudaEvent> Failed(int ordinal,
                                           const absl::Status& error);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  absl::StatusOr<bool> Done() override;
  absl::Status Wait() override;

  // Sets the event to the point after everything queued on the stream so far.
  void RecordOn(Stream& stream);
  // Delays everything queued on the stream from now on until the event is
  // reached.
  void DelayWorkOf(Stream& stream) const;

 private:
  CudaEvent(int ordinal, cudaEvent_t event)
      : ordinal_(ordinal), event_(event) {}

  const int ordinal_;
  const cudaEvent_t event_;  // Null in events that Failed has returned.
  absl::Status status_;      // Status of the stream that recorded the event.
};

// A queue of copies on a GPU. Its methods make this GPU the calling thread's
// current CUDA device.
class CudaCopyStream final : public CopyStream {
 public:
  static absl::StatusOr<std::unique_ptr<CudaCopyStream>> Create(int ordinal);
  // Waits for queued copies, because the caller may free their memory
  // afterwards.
  ~CudaCopyStream() override;

  void CopyFromHost(void* to, const void* from, size_t bytes) override;
  void CopyToHost(void* to, const void* from, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  void Record(Event* event) override;
  void Await(const Event& event) override;
  absl::Status Synchronize() override;
  void* handle() override { return stream_->get(); }

 private:
  explicit CudaCopyStream(std::unique_ptr<Stream> stream);
  Stream& Current();

  const std::unique_ptr<Stream> stream_;
};

// Implements Copies for a CUDA device. `context` must outlive this object.
class CudaCopies final : public Copies {
 public:
  explicit CudaCopies(CudaContext* context) : context_(context) {}

  absl::StatusOr<std::unique_ptr<CopyStream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) override;
  absl::StatusOr<std::shared_ptr<float>> MapMemory(
      const DeviceMemoryHandle& handle) override;
  bool OwnsMemory(const float* mapped) const override;
  void Record(Event* event) override;
  void Await(const Event& event) override;

 private:
  CudaContext* const context_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_COPIES_H_
