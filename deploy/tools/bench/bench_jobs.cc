#include "deploy/tools/bench/bench_jobs.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/text/nearest.h"

namespace tributary {
namespace {

struct BenchModel {
  const char* name;
  int64_t batch;
  const char* specification;
};

constexpr char kSgd[] =
    "optimizer { sgd { learning_rate: 1e-3 momentum: 0.9 } }";

std::vector<BenchModel> Models() {
  return {
      {"mlp", 64,
       "model { mlp { hidden: 512 hidden: 512 } } "
       "data { random { shape: 784 classes: 10 } }"},
      {"cnn", 64,
       "model { cnn { block { channels: 32 kernel: 5 } "
       "block { channels: 64 kernel: 5 } hidden: 128 } } "
       "data { random { shape: [1, 28, 28] classes: 10 } }"},
      {"gpt", 8,
       "model { gpt { layers: 4 width: 128 heads: 4 context: 128 } } "
       "data { random {} } "
       // The defaults of torch.optim.AdamW.
       "optimizer { adamw { learning_rate: 1e-4 weight_decay: 0.01 } }"},
      {"gpt2", 4,
       "model { gpt { layers: 12 width: 768 heads: 12 context: 1024 "
       "vocabulary: 50257 vocabulary_multiple: 64 } } "
       "data { random {} } "
       "optimizer { adamw { learning_rate: 1e-4 weight_decay: 0.01 } }"},
      {"bigmlp", 16,
       "model { mlp { hidden: 4096 hidden: 4096 hidden: 4096 } } "
       "data { random { shape: 4096 classes: 4096 } }"},
      {"resnet18", 32,
       "model { resnet {} } "
       "data { random { shape: [3, 32, 32] classes: 10 } }"},
      {"resnet50", 4,
       "model { resnet { preset: RESNET_50 } } "
       "data { random { samples: 8 shape: [3, 224, 224] classes: 1000 } }"},
  };
}

}  // namespace

const std::vector<std::string>& BenchModels() {
  static const auto* const names = [] {
    auto* list = new std::vector<std::string>;
    for (const BenchModel& model : Models()) list->push_back(model.name);
    return list;
  }();
  return *names;
}

absl::StatusOr<JobSpec> BenchJob(const BenchLoad& load) {
  const std::vector<BenchModel> models = Models();
  const auto model =
      std::find_if(models.begin(), models.end(),
                   [&](const BenchModel& m) { return load.model == m.name; });
  if (model == models.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown model ", load.model, DidYouMean(load.model, BenchModels()),
        "; there are ", absl::StrJoin(BenchModels(), ", ")));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      JobSpec job, ParseJob(absl::StrCat(model->specification), model->name));
  if (!job.has_optimizer()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec sgd, ParseJob(kSgd, model->name));
    *job.mutable_optimizer() = sgd.optimizer();
  }
  const int64_t batch =
      load.batch_per_worker > 0 ? load.batch_per_worker : model->batch;
  // The reduction tree needs a power of two. Workers beyond that number would
  // be spares.
  int64_t micro_batches = 1;
  while (micro_batches < int64_t{load.workers} * load.threads) {
    micro_batches *= 2;
  }
  if (micro_batches != int64_t{load.workers} * load.threads) {
    return absl::InvalidArgumentError(
        "--workers times --threads must be a power of two, so that all have "
        "the same work");
  }
  job.mutable_batch()->set_global(batch * load.workers);
  job.mutable_batch()->set_micro_batches(micro_batches);
  // Each step uses different samples of a small set, which is a multiple of the
  // batch.
  job.mutable_data()->mutable_random()->set_samples(4 * batch * load.workers);
  job.set_steps(load.steps);
  job.mutable_evaluation()->set_disabled(true);
  job.mutable_output()->set_sample_bytes(0);
  job.mutable_checkpoint()->set_every_steps(0);
  job.set_name(absl::StrCat("bench-", model->name));
  for (const std::string& set : load.sets) {
    TRIBUTARY_RETURN_IF_ERROR(SetField(&job, set));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(job));
  return ResolveJob(job);
}

}  // namespace tributary
