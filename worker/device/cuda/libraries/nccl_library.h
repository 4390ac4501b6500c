// NCCL's messages between two GPUs, behind an interface: loaded when first
// needed (see shared_library.h), and replaced in tests.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// A communicator: of this process and another one. One thread at a time, but
// for Abort, which any thread may call at any time. Destroying it aborts what
// is under way.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;

  // Whether what was begun last (the communicator itself, Send, Receive) is
  // queued: only then may the next thing be begun. The error of anything since.
  // Never waits.
  virtual absl::StatusOr<bool> Ready() = 0;
  // Queue a message to, or from, the other process on a stream of the GPU that
  // was current in Begin (see CopyStream::handle). Both sides must queue the
  // same messages in the same order.
  virtual absl::Status Send(const void* data, size_t bytes, void* stream) = 0;
  virtual absl::Status Receive(void* data, size_t bytes, void* stream) = 0;
  // Ends what is queued, now, with undefined results: its stream goes on.
  virtual void Abort() = 0;
};

// Thread-safe.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;

  // Bytes that name a communicator to be; one of its processes makes them.
  virtual absl::StatusOr<std::string> MakeId() = 0;
  // Begins to make the communicator of that name, of two processes, of which
  // this one is number `rank`, with the GPU of that bus id. Does not wait: see
  // NcclCommunicator::Ready.
  virtual absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& id, int rank, const std::string& bus_id) = 0;
};

// The real one, for the process's lifetime; safe from any thread.
// FailedPrecondition if it cannot be loaded, or in a build without CUDA.
absl::StatusOr<NcclLibrary*> LoadNccl();

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_
