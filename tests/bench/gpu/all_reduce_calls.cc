// Counts the calls of CUDA that a worker makes in a step of an all-reduce by
// NCCL: two workers on the emulated GPUs train an MLP of 21 chunks. Usage:
//   all_reduce_calls [gloo] [clip] [shard]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_reduction_stream.h"

namespace tributary {
namespace {

constexpr int kWorkers = 2;
// Counts are the differences between two runs, so they include only steps.
constexpr int64_t kFewSteps = 4;
constexpr int64_t kManySteps = 12;

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(Precision precision) {
  return CreateCudaDevice(/*ordinal=*/0, precision);
}

struct Counts {
  emulated_gpu::Calls calls;
  int64_t bytes_to_host = 0;
};

absl::StatusOr<Counts> Run(const JobSpec& job, const std::string& output) {
  FakeNccl nccl;
  const emulated_gpu::Calls before = emulated_gpu::CountCalls();
  const int64_t bytes_before = emulated_gpu::BytesToHost();
  LocalCluster cluster(job, /*servers=*/1, kWorkers, output);
  for (int i = 0; i < kWorkers; ++i) {
    cluster.StartWorkerOn(&MakeDevice, /*threads=*/1, &nccl,
                          &CreateCudaReductionStream);
  }
  const absl::Status status = cluster.Await();
  if (!status.ok()) return status;
  return Counts{emulated_gpu::CountCalls() - before,
                emulated_gpu::BytesToHost() - bytes_before};
}

absl::Status Count(const std::set<std::string>& options) {
  std::string folder = "/tmp/all_reduce_calls.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError("cannot create a folder in /tmp");
  }
  JobSpec job = TinyJob("mlp", folder);
  job.clear_epochs();
  job.clear_evaluation();
  job.mutable_evaluation()->set_disabled(true);
  MlpSpec* const mlp = job.mutable_model()->mutable_mlp();
  mlp->clear_hidden();
  mlp->add_hidden(512);
  mlp->add_hidden(512);
  mlp->add_hidden(128);
  job.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.001);
  if (options.count("clip") > 0) job.set_clip_norm(1);
  AllReduceSpec* const all_reduce =
      job.mutable_exchange()->mutable_all_reduce();
  all_reduce->set_chunk_bytes(65536);
  all_reduce->set_shard_optimizer(options.count("shard") > 0);
  all_reduce->set_backend(options.count("gloo") > 0 ? AllReduceSpec::GLOO
                                                    : AllReduceSpec::NCCL);
  Counts counts[2];
  for (const int64_t steps : {kFewSteps, kManySteps}) {
    job.set_steps(steps);
    const std::string output = absl::StrCat(folder, "/", steps);
    if (std::system(absl::StrCat("mkdir -p ", output).c_str()) != 0) {
      return absl::InternalError("cannot create a folder");
    }
    const absl::StatusOr<Counts> run = Run(job, output);
    if (!run.ok()) return run.status();
    counts[steps == kManySteps] = *run;
  }
  const emulated_gpu::Calls calls = counts[1].calls - counts[0].calls;
  const auto each = [](int64_t number) {
    return static_cast<double>(number) /
           static_cast<double>(kWorkers * (kManySteps - kFewSteps));
  };
  std::printf(
      "per worker and step: %.1f copies to the GPU, %.1f to the host (%.0f "
      "bytes), %.1f launches, %.1f events recorded, %.1f waits of the host\n",
      each(calls.copies_to_device), each(calls.copies_to_host),
      each(counts[1].bytes_to_host - counts[0].bytes_to_host),
      each(calls.launches), each(calls.events), each(calls.waits));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  const absl::Status status =
      tributary::Count(std::set<std::string>(argv + 1, argv + argc));
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
