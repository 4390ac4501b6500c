#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "tests/worker/exchange/mesh/gloo_meshes.h"
#include "tests/worker/exchange/mesh/local_meshes.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"

namespace tributary {
namespace {

using Meshes = std::vector<std::unique_ptr<PeerMesh>>;
using DeviceMeshes = std::vector<std::unique_ptr<DeviceMesh>>;

AllReduceExchange::Options OptionsOf(const ExchangeWorkload& workload,
                                     bool shard_optimizer, int members) {
  AllReduceExchange::Options options;
  options.job = workload.job;
  options.steps = ExchangeWorkload::kSteps;
  options.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
      shard_optimizer);
  options.assignments = ExchangeWorkload::Assign(members);
  return options;
}

class AllReducePeers final : public ExchangePeers {
 public:
  AllReducePeers(const ExchangeWorkload& workload, bool shard_optimizer,
                 Meshes meshes)
      : workload_(workload),
        meshes_(std::move(meshes)),
        options_(OptionsOf(workload, shard_optimizer,
                           static_cast<int>(meshes_.size()))) {}

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      int rank, WeightsSink* sink) override {
    return AllReduceExchange::Create(options_, &workload_.layout, sink,
                                     std::move(meshes_[rank]));
  }

 private:
  const ExchangeWorkload& workload_;
  Meshes meshes_;  // By rank; null once connected.
  const AllReduceExchange::Options options_;
};

// Members on emulated GPUs.
class DevicePeers final : public ExchangePeers {
 public:
  DevicePeers(const ExchangeWorkload& workload, bool shard_optimizer,
              DeviceMeshes meshes)
      : workload_(workload),
        meshes_(std::move(meshes)),
        options_(OptionsOf(workload, shard_optimizer,
                           static_cast<int>(meshes_.size()))) {}

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      int rank, WeightsSink* sink) override {
    const absl::StatusOr<ReductionStream::Plan> plan =
        AllReduceExchange::PlanFor(options_.job, &workload_.layout, rank,
                                   static_cast<int>(meshes_.size()));
    absl::StatusOr<std::unique_ptr<ReductionStream>> stream =
        CreateCudaReductionStream(*CudaBusId(EmulatedGpuOf(rank)), *plan);
    if (!stream.ok()) return stream.status();
    return AllReduceExchange::CreateOnDevice(options_, &workload_.layout, sink,
                                             std::move(meshes_[rank]),
                                             *std::move(stream));
  }

 private:
  const ExchangeWorkload& workload_;
  DeviceMeshes meshes_;  // By rank; null once connected.
  const AllReduceExchange::Options options_;
};

Meshes MakeMeshes(const std::string& mesh, int workers) {
  return mesh == "gloo" ? MakeGlooMeshes(workers) : MakeLocalMeshes(workers);
}

ExchangeImplementation AllReduce(const std::string& mesh, int workers,
                                 bool shard_optimizer) {
  ExchangeImplementation all_reduce;
  all_reduce.name = absl::StrCat(mesh, "_", workers, "_workers",
                                 shard_optimizer ? "_sharded" : "");
  all_reduce.workers = workers;
  // Any member, because members that fail leave the others too.
  if (workers > 1) all_reduce.lost_peer = "member ";
  all_reduce.make_peers = [=](const ExchangeWorkload& workload,
                              int size) -> std::unique_ptr<ExchangePeers> {
    if (mesh == "nccl") {
      static auto* const nccl = new FakeNccl;
      return std::make_unique<DevicePeers>(workload, shard_optimizer,
                                           MakeNcclMeshes(size, nccl));
    }
    Meshes meshes = MakeMeshes(mesh, size);
    if (meshes.empty()) return nullptr;
    return std::make_unique<AllReducePeers>(workload, shard_optimizer,
                                            std::move(meshes));
  };
  return all_reduce;
}

std::vector<ExchangeImplementation> Implementations() {
  std::vector<ExchangeImplementation> all;
  for (const bool shard_optimizer : {false, true}) {
    for (const int workers : {1, 2, 3, 5, 8}) {
      all.push_back(AllReduce("local", workers, shard_optimizer));
    }
    for (const int workers : {2, 3}) {
      all.push_back(AllReduce("gloo", workers, shard_optimizer));
    }
    for (const int workers : {1, 2, 4}) {
      all.push_back(AllReduce("nccl", workers, shard_optimizer));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, ExchangeConformanceTest,
                         testing::ValuesIn(Implementations()),
                         ImplementationName);

}  // namespace
}  // namespace tributary
