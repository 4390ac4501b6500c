#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "tests/worker/exchange/mesh/gloo_meshes.h"
#include "tests/worker/exchange/mesh/local_mesh.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"

namespace tributary {
namespace {

using Meshes = std::vector<std::unique_ptr<PeerMesh>>;

class AllReducePeers final : public ExchangePeers {
 public:
  AllReducePeers(const ExchangeWorkload& workload, bool shard_optimizer,
                 Meshes meshes)
      : workload_(workload), meshes_(std::move(meshes)) {
    options_.job = workload.job;
    options_.steps = ExchangeWorkload::kSteps;
    options_.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
        shard_optimizer);
    options_.assignments =
        ExchangeWorkload::Assign(static_cast<int>(meshes_.size()));
  }

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      int rank, WeightsSink* sink) override {
    return AllReduceExchange::Create(options_, &workload_.layout, sink,
                                     std::move(meshes_[rank]));
  }

 private:
  const ExchangeWorkload& workload_;
  Meshes meshes_;  // By rank; null once connected.
  AllReduceExchange::Options options_;
};

Meshes MakeMeshes(const std::string& mesh, int workers) {
  static auto* const nccl = new FakeNccl;
  if (mesh == "gloo") return MakeGlooMeshes(workers);
  if (mesh == "nccl") return MakeNcclMeshes(workers, nccl, /*least_bytes=*/512);
  return MakeLocalMeshes(workers);
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
  }
  // The emulated GPU is slow.
  all.push_back(AllReduce("nccl", 2, /*shard_optimizer=*/false));
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, ExchangeConformanceTest,
                         testing::ValuesIn(Implementations()),
                         ImplementationName);

}  // namespace
}  // namespace tributary
