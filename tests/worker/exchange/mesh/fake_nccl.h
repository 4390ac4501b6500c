// NCCL between the threads of a test, on the emulated GPU's streams.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/exchange/mesh/device_mesh.h"

namespace tributary {

// An NcclLibrary whose operations complete with a delay: after the other
// process has begun the communicator, Ready returns false several times before
// it returns true. The messages of an operation are transferred on their
// streams when both sides have queued them. Abort ends messages without
// transferring them. Thread-safe.
class FakeNccl final : public NcclLibrary {
 public:
  FakeNccl();
  ~FakeNccl() override;

  absl::StatusOr<std::string> MakeId() override;
  absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& id, int rank, const std::string& bus_id) override;

  int hardware_queues() const override { return hardware_queues_; }

  void SetHardwareQueues(int queues) { hardware_queues_ = queues; }
  // Makes Ready return `status` for every communicator from now on.
  void Break(const absl::Status& status);
  // Return the number of messages that have been received so far, and the
  // number of communicators that exist.
  int64_t messages() const;
  int64_t communicators() const;

  struct Hub;

 private:
  const std::shared_ptr<Hub> hub_;
  int hardware_queues_ = 32;
};

// Returns the NcclMeshes of `size` members, by rank. They use `nccl`, the
// emulated GPUs of EmulatedGpuOf, and control meshes of MakeLocalMeshes. `nccl`
// must outlive the meshes.
std::vector<std::unique_ptr<DeviceMesh>> MakeNcclMeshes(
    int size, FakeNccl* nccl, absl::Duration timeout = absl::Minutes(10));

// Returns the number of the emulated GPU that a member uses; members share the
// GPUs in turn.
int EmulatedGpuOf(int rank);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_
