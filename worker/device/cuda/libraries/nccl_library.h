// Interface to NCCL's point-to-point messages. NCCL is loaded on first use (see
// shared_library.h) and replaced in tests.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// A communicator between this process and one other process. Not thread-safe,
// except that any thread may call Abort at any time. Destroying it aborts
// operations in progress.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;

  // Returns true if the last operation (creation, Send or Receive) has been
  // queued. Only then may the next one be started. Returns the first error of
  // the communicator, if any. Never blocks.
  virtual absl::StatusOr<bool> Ready() = 0;
  // Queue a message to or from the other process on a stream (see
  // CopyStream::handle) of the GPU passed to Begin. Both sides must queue the
  // same messages in the same order.
  virtual absl::Status Send(const void* data, size_t bytes, void* stream) = 0;
  virtual absl::Status Receive(void* data, size_t bytes, void* stream) = 0;
  // Ends queued messages at once, with undefined results. Their stream stays
  // usable.
  virtual void Abort() = 0;
};

// Creates communicators. Thread-safe.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;

  // Creates the id of a new communicator. One of the two processes of the
  // communicator calls this, and passes the id to the other process.
  virtual absl::StatusOr<std::string> MakeId() = 0;
  // Starts to create the communicator with this id. It consists of two
  // processes; this one has number `rank` and uses the GPU at `bus_id`. Does
  // not block; see NcclCommunicator::Ready.
  virtual absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& id, int rank, const std::string& bus_id) = 0;
};

// Returns the NCCL library, loaded for the lifetime of the process.
// Thread-safe. Returns FailedPrecondition if loading fails, or in a build
// without CUDA.
absl::StatusOr<NcclLibrary*> LoadNccl();

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_
