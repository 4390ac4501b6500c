// NCCL between the threads of a test, on the emulated GPU's streams.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// As NCCL without waits: everything takes some asking until it is queued. A
// message runs on its streams when both sides have queued it, or when its
// communicator is aborted. Thread-safe.
class FakeNccl final : public NcclLibrary {
 public:
  FakeNccl();
  ~FakeNccl() override;

  absl::StatusOr<std::string> MakeId() override;
  absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& id, int rank, const std::string& bus_id) override;

  int hardware_queues() const override { return hardware_queues_; }

  void SetHardwareQueues(int queues) { hardware_queues_ = queues; }
  // Every communicator's next answers are this.
  void Break(const absl::Status& status);
  // That have come through, and that are still there.
  int64_t messages() const;
  int64_t communicators() const;

  struct Hub;

 private:
  const std::shared_ptr<Hub> hub_;
  int hardware_queues_ = 32;
};

// Meshes of emulated GPUs by `nccl`, beside meshes within this process; those
// of all members, by rank. The members take turns with the GPUs. `nccl` must
// outlive the meshes.
std::vector<std::unique_ptr<PeerMesh>> MakeNcclMeshes(
    int size, FakeNccl* nccl, size_t least_bytes,
    absl::Duration timeout = absl::Minutes(10));

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_FAKE_NCCL_H_
