// Interface to NCCL's point-to-point messages. NCCL is loaded on first use (see
// shared_library.h). Tests implement the interface themselves.
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

  // Returns true once the communicator has been created and the messages of all
  // calls of Exchange have been queued. Only then may Exchange be called.
  // Returns Unavailable after an error of NCCL, and Aborted after Abort. Never
  // blocks.
  virtual absl::StatusOr<bool> Ready() = 0;
  // Queues a message to the other process, a message from it, or both. `stream`
  // is a stream (see CopyStream::handle) of the GPU passed to Begin. Both
  // messages are one operation, in which neither waits for the other. A message
  // of 0 bytes is omitted. Both sides must queue matching operations in the
  // same order. The first call may allocate memory, which waits for everything
  // that runs on the GPU. Returns the errors of Ready.
  virtual absl::Status Exchange(const void* send, size_t send_bytes,
                                void* receive, size_t receive_bytes,
                                void* stream) = 0;
  // Ends queued messages at once, with undefined results. Their stream stays
  // usable.
  virtual void Abort() = 0;
};

// Creates communicators. Thread-safe.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;

  // Creates the id of a new communicator. One of the two processes of the
  // communicator calls this, and passes the id to the other process. Returns
  // Unavailable after an error of NCCL.
  virtual absl::StatusOr<std::string> MakeId() = 0;
  // Starts to create the communicator with this id. It connects two processes.
  // `rank` is the number of this process in the communicator, 0 or 1, and
  // `bus_id` is the PCI address of the GPU that this process uses. Does not
  // block; see NcclCommunicator::Ready. Returns InvalidArgument if `id` is not
  // an id of NCCL, and Unavailable after an error of NCCL.
  virtual absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& id, int rank, const std::string& bus_id) = 0;

  // Returns the number of hardware queues that the streams of a GPU share in
  // this process: the environment variable CUDA_DEVICE_MAX_CONNECTIONS, or 8 if
  // it is not set. Work in a hardware queue waits for all work queued there
  // before, even if that work belongs to a different stream.
  virtual int hardware_queues() const = 0;
};

// Returns the NCCL library, loaded for the lifetime of the process.
// Thread-safe. Returns FailedPrecondition if loading fails, or in a build
// without CUDA.
absl::StatusOr<NcclLibrary*> LoadNccl();

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NCCL_LIBRARY_H_
