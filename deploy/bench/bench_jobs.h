// The models of `tributary bench step`. Their sizes, batches and optimizers are
// those of the PyTorch measurements that they are compared with.
#ifndef TRIBUTARY_DEPLOY_BENCH_BENCH_JOBS_H_
#define TRIBUTARY_DEPLOY_BENCH_BENCH_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// mlp     784-512-512-10, batch 64, SGD with momentum        0.7 M parameters
// cnn     convolutions 32@5x5 and 64@5x5, 128, 10 on 1x28x28, batch 64, SGD
//         with momentum
// gpt     4 layers, width 128, 4 heads, context 128, vocabulary 256, batch 8,
//         AdamW                                              0.8 M
// gpt2    GPT-2 124M: 12 layers, width 768, 12 heads, context 1024, vocabulary
//         50257 padded to 50304, batch 4, AdamW              124 M
// bigmlp  4096 x 4096, four layers, batch 16, SGD with momentum: exchange-heavy
//                                                            67 M
// resnet18  on 3x32x32, batch 32, SGD with momentum          11 M
const std::vector<std::string>& BenchModels();

struct BenchLoad {
  std::string model;
  // Samples per worker and step; 0: the model's default.
  int64_t batch_per_worker = 0;
  int workers = 1;
  // Number of compute threads of each worker, which is also the number of its
  // micro-batches.
  int threads = 1;
  DeviceName device{DeviceName::Kind::kCpu};  // Device of all workers.
  std::string server_device = "cpu";          // See AddServerDeviceFlag.
  int64_t steps = 1;
  // Further fields of the job, in the form that SetField parses.
  std::vector<std::string> sets;
};

// Returns the resolved job for `load`, with random inputs in memory. Returns
// InvalidArgument, naming the known models or the flag to change, if `load` is
// invalid.
absl::StatusOr<JobSpec> BenchJob(const BenchLoad& load);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_BENCH_JOBS_H_
