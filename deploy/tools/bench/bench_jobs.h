// The models of `tributary bench step`. Their sizes, batches and optimizers are
// the same as in the PyTorch measurements with which they are compared.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_JOBS_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// Returns the names of the models that `tributary bench step` can time:
//
//   mlp       multilayer perceptron with layers of 784, 512, 512 and 10 units;
//             batch 64; SGD with momentum; 0.7 M parameters
//   cnn       convolutional network on images of 1x28x28: 32 and 64 filters of
//             5x5, then layers of 128 and 10 units; batch 64; SGD with momentum
//   gpt       transformer with 4 layers, width 128, 4 heads, context 128 and a
//             vocabulary of 256; batch 8; AdamW; 0.8 M parameters
//   gpt2      GPT-2: 12 layers, width 768, 12 heads, context 1024, a vocabulary
//             of 50257, padded to 50304; batch 4; AdamW; 124 M parameters
//   bigmlp    four layers of 4096 x 4096, which exchange much and compute
//             little; batch 16; SGD with momentum; 67 M parameters
//   resnet18  ResNet-18 on images of 3x32x32; batch 32; SGD with momentum; 11 M
//             parameters
//   resnet50  ResNet-50 on images of 3x224x224; batch 4; SGD with momentum;
//             26 M parameters
const std::vector<std::string>& BenchModels();

struct BenchLoad {
  std::string model;
  // Number of samples per worker and step; 0 selects the model's default.
  int64_t batch_per_worker = 0;
  int workers = 1;
  // Number of compute threads of each worker, which is also the number of its
  // micro-batches. `workers` * `threads` must be a power of two.
  int threads = 1;
  DeviceName device{DeviceName::Kind::kCpu};  // Device of all workers.
  std::string server_device = "cpu";          // Value of --device for servers.
  int64_t steps = 1;
  // Changes to further fields of the job, in the form path=value; see SetField
  // in common/job/job.h.
  std::vector<std::string> sets;
};

// Returns the job for `load`, with random inputs in memory, as ResolveJob
// returns it. Returns InvalidArgument if `load` is invalid. The message names
// the known models, the flag to change, or the field of the job.
absl::StatusOr<JobSpec> BenchJob(const BenchLoad& load);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_JOBS_H_
