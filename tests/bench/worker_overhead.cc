// Cost of tributary/worker.h: the same network, trained by a built-in worker
// and by a program that calls it as its engine, in the arenas of the library
// and with the same overlap. Both begin with the same values and must end with
// the same weights. Prints the median step time of each round, and the ratio of
// the medians over all rounds.
//   bazel run -c opt //tests/bench:worker_overhead
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/shutdown.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "common/parameters/arena_layout.h"
#include "nlohmann/json.hpp"
#include "tests/support/local_cluster.h"
#include "tests/support/model_calls.h"
#include "tributary/worker.h"
#include "worker/data/data_set.h"
#include "worker/data/open_data_set.h"
#include "worker/device/device.h"
#include "worker/models/model.h"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

constexpr int kRounds = 7;

struct Case {
  const char* name;
  const char* job;
};
constexpr Case kCases[] = {
    {"mlp, 8 micro-batches of 16", R"(
       model { mlp { hidden: [256, 128] } }
       data { random { samples: 4096 shape: 784 classes: 10 } }
       batch { global: 128 micro_batches: 8 }
       optimizer { sgd { learning_rate: 0.01 } } steps: 400)"},
    {"gpt, 4 micro-batches of 4 sequences", R"(
       model { gpt { layers: 2 heads: 4 width: 64 context: 64 } }
       data { random { samples: 4096 } }
       batch { global: 16 micro_batches: 4 }
       optimizer { adamw { learning_rate: 0.001 } } steps: 60)"},
};

// Forwards the network's callbacks to the micro-batch, parameter by parameter.
class Forwarder final : public ModelCalls {
 public:
  Forwarder(const ArenaLayout* layout, MicroBatch* micro_batch)
      : layout_(layout),
        micro_batch_(micro_batch),
        ready_(static_cast<int>(layout->parameters().size())) {}

  bool Await(int64_t begin, int64_t end) override {
    for (size_t i = 0; i < layout_->parameters().size(); ++i) {
      const Parameter& parameter = layout_->parameters()[i];
      if (parameter.offset < end && parameter.offset + parameter.size > begin) {
        micro_batch_->weights(static_cast<int>(i));
      }
    }
    return !micro_batch_->aborted();
  }
  void Ready(int64_t begin) override {
    while (ready_ > 0 && layout_->parameters()[ready_ - 1].offset >= begin) {
      micro_batch_->Ready(--ready_);
    }
  }

 private:
  const ArenaLayout* const layout_;
  MicroBatch* const micro_batch_;
  int ready_;  // Parameters from here on are ready.
};

// All training samples in memory, as a program holds its own data. The built-in
// worker reads ahead on another thread.
class Samples {
 public:
  explicit Samples(const DataSet& data) : count_(data.train_samples()) {
    std::vector<int64_t> all(count_);
    std::iota(all.begin(), all.end(), 0);
    data.ReadTrain(/*epoch=*/0, all, &all_);
  }

  Batch Select(absl::Span<const int64_t> indexes) const {
    Batch batch;
    batch.samples = static_cast<int64_t>(indexes.size());
    for (const int64_t index : indexes) {
      Append(all_.features, index, &batch.features);
      Append(all_.tokens, index, &batch.tokens);
      Append(all_.labels, index, &batch.labels);
    }
    return batch;
  }

 private:
  template <typename T>
  void Append(const std::vector<T>& from, int64_t index,
              std::vector<T>* to) const {
    const auto size = static_cast<int64_t>(from.size()) / count_;
    const auto begin = from.begin() + index * size;
    to->insert(to->end(), begin, begin + size);
  }

  const int64_t count_;
  Batch all_;
};

void RunProgram(const JobSpec& job, const std::string& coordinator) {
  const std::unique_ptr<DataSet> data = *OpenDataSet(job);
  const Samples samples(*data);
  const std::unique_ptr<Device> device = CreateCpuDevice(PrecisionOf(job));
  const std::unique_ptr<Model> model = *CreateModel(
      job.model(), data->info(),
      job.batch().global() / job.batch().micro_batches(), device.get());
  ParameterTable table = model->table();
  table.set_chunk_elements(kArenaAlignment);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  // The same values as the built-in worker's: the speed depends on the values,
  // for example on how many of them are zero.
  std::vector<float> initial(layout.arena_elements());
  model->Initialize(job.seed(), layout, initial.data());
  std::vector<ParameterDeclaration> declared;
  for (const Parameter& parameter : layout.parameters()) {
    const float* const values = initial.data() + parameter.offset;
    declared.push_back({parameter.name, parameter.shape,
                        [values](Random*, absl::Span<float> to) {
                          std::copy_n(values, to.size(), to.begin());
                        },
                        static_cast<ParameterGroup>(parameter.group)});
  }
  Worker::Options options;
  options.coordinator = coordinator;
  options.log_level = "error";
  Worker worker = *Worker::Connect(options);
  if (!worker.Declare(declared).ok()) return;
  while (Step* const step = worker.NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      const Batch batch = samples.Select(micro_batch.indexes());
      Forwarder forwarder(&layout, &micro_batch);
      // All parameters are in one arena, which begins with the first.
      ObservedGradients gradients(micro_batch.gradient(0).data(), &forwarder);
      const absl::StatusOr<LossSums> sums = model->ForwardBackward(
          batch, job.seed(), micro_batch.step(), micro_batch.number(),
          ObservedWeights(micro_batch.weights(0).data(), &forwarder),
          &gradients, &forwarder);
      if (sums.ok()) micro_batch.Finish(sums->loss);
    }
  }
}

// Runs a built-in worker with the default heartbeat interval, which a program's
// worker has, too. That of LocalCluster::StartWorker is so short that it costs
// time.
void RunBuiltIn(const std::string& coordinator) {
  LogOptions log;
  log.level = LogLevel::kError;
  const std::unique_ptr<Logger> logger = *Logger::Create(log);
  WorkerOptions options;
  options.coordinator = coordinator;
  options.log = logger.get();
  Shutdown shutdown;
  const absl::Status status = RunWorker(options, &shutdown);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
}

// Runs the job and returns its summary.
nlohmann::json Measure(const JobSpec& job, bool program) {
  static int runs = 0;
  const std::string folder =
      absl::StrCat("/tmp/worker_overhead-", getpid(), "-", ++runs);
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1, folder);
  if (program) {
    RunProgram(ResolveJob(job), cluster.coordinator());
  } else {
    RunBuiltIn(cluster.coordinator());
  }
  const absl::Status status = cluster.Await();
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return cluster.Summary();
}

double StepMilliseconds(const nlohmann::json& summary) {
  return summary["step_milliseconds"].value("median", 0.0);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace
}  // namespace tributary

int main() {
  for (const tributary::Case& measured : tributary::kCases) {
    const auto job = tributary::ParseJob(measured.job, measured.name);
    if (!job.ok()) {
      std::printf("%s\n", job.status().ToString().c_str());
      return 1;
    }
    std::vector<double> built_in;
    std::vector<double> program;
    std::printf("%s: step in ms, built in and program\n", measured.name);
    for (int round = 0; round < tributary::kRounds; ++round) {
      const nlohmann::json first = tributary::Measure(*job, /*program=*/false);
      const nlohmann::json second = tributary::Measure(*job, /*program=*/true);
      if (first["weights_sha256"] != second["weights_sha256"]) {
        std::printf("the two did not train the same weights\n");
        return 1;
      }
      built_in.push_back(tributary::StepMilliseconds(first));
      program.push_back(tributary::StepMilliseconds(second));
      std::printf("  %.3f %.3f\n", built_in.back(), program.back());
    }
    std::printf("  ratio of the medians %.3f\n",
                tributary::Median(program) / tributary::Median(built_in));
  }
  return 0;
}
