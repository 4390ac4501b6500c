// The conformance suite on the path on which sums and weights stay in the
// memory of a server's GPU. The GPUs are emulated: the host cannot access their
// memory, and their work runs as late as it may.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/update/cuda/cuda_passes.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "tests/worker/exchange/conformance/exchange_servers.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

// The second GPU, which no thread uses by accident.
constexpr int kServerGpu = 1;

// The GPUs of the workers, and the arenas of each worker in the server's GPU.
struct Gpus {
  // If true, workers use both GPUs in turn. Otherwise all use the server's.
  bool two = false;
  // See WorkerGpu. No worker of these tests has more than two sums in a step.
  int arenas = 2;

  int Of(int rank) const { return two ? rank % 2 : kServerGpu; }
};

ExchangeServers::Options OnGpu() {
  ExchangeServers::Options options;
  options.transport = ExchangeSpec::MEMORY;
  options.make_passes = [](const ChunkPassPlan& plan) {
    return MakeCudaPasses(kServerGpu, ExchangeServers::kThreads, plan);
  };
  return options;
}

// One server on an emulated GPU, and workers that map its memory.
class GpuServer final : public ExchangeServers {
 public:
  GpuServer(const ExchangeWorkload& workload, const Gpus& gpus, int workers)
      : ExchangeServers(workload, OnGpu()), gpus_(gpus) {
    for (int rank = 0; rank < workers; ++rank) {
      devices_.push_back(*CreateCudaDevice(gpus_.Of(rank)));
    }
  }

  WorkerGpu gpu(int rank) override {
    WorkerGpu gpu;
    gpu.device = devices_[rank].get();
    gpu.has_weights = gpus_.Of(rank) == kServerGpu;
    gpu.arenas = gpus_.arenas;
    return gpu;
  }

 private:
  void SetOptions(int rank,
                  ParameterServerExchange::Options* options) override {
    options->device_arenas = gpus_.arenas;
    options->map_device =
        [device = devices_[rank].get()](const DeviceMemoryHandle& handle)
        -> absl::StatusOr<MappedDeviceMemory> {
      DeviceMemoryHandle memory = handle;
      // MapMemory refuses memory of its own process, which the worker and the
      // server share here.
      memory.process = 0;
      absl::StatusOr<std::shared_ptr<float>> mapped =
          device->copies()->MapMemory(memory);
      if (!mapped.ok()) return mapped.status();
      const bool local = device->copies()->OwnsMemory(mapped->get());
      return MappedDeviceMemory{*std::move(mapped), local};
    };
  }

  const Gpus gpus_;
  std::vector<std::unique_ptr<Device>> devices_;  // By rank.
};

ExchangeImplementation InDeviceMemory(const std::string& name, const Gpus& gpus,
                                      int workers) {
  ExchangeImplementation server = ServerExchange(/*servers=*/1, workers);
  server.name = absl::StrCat(name, "_", workers, "_workers");
  server.make_peers = [=](const ExchangeWorkload& workload, int size) {
    emulated_gpu::ProtectMemory();
    emulated_gpu::SetOwnMapping(true);
    return std::make_unique<GpuServer>(workload, gpus, size);
  };
  return server;
}

std::vector<ExchangeImplementation> Implementations() {
  const Gpus one_gpu;
  Gpus two_gpus;
  two_gpus.two = true;
  // Some sums of a step are in the GPU's memory, and others in the host's.
  Gpus one_arena;
  one_arena.arenas = 1;
  return {InDeviceMemory("one_gpu", one_gpu, 1),
          InDeviceMemory("one_gpu", one_gpu, 3),
          InDeviceMemory("two_gpus", two_gpus, 3),
          InDeviceMemory("one_arena", one_arena, 3)};
}

INSTANTIATE_TEST_SUITE_P(DeviceMemory, ExchangeConformanceTest,
                         testing::ValuesIn(Implementations()),
                         ImplementationName);

}  // namespace
}  // namespace tributary
