#include "deploy/launch/plan/memory_fit.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/os/process.h"
#include "common/parameters/arena_layout.h"
#include "common/plan/memory_account.h"
#include "common/plan/row_memory.h"
#include "worker/data/data_set.h"
#include "worker/models/model.h"
#include "worker/models/stages/layerwise_model.h"
#include "worker/training/layer_runner.h"
#include "worker/training/micro_batch_memory.h"

namespace tributary {
namespace {

// The part of the memory that a job may use: accounts are within a tenth.
constexpr double kUsable = 0.9;

// Convolutions copy tensors to the layouts that oneDNN prefers. Measured: at
// most this many bytes for each byte of activations.
constexpr double kConvolutionWorkspace = 0.75;

// More micro-batches than these hardly save memory.
constexpr int64_t kMostMicroBatches = 256;

// The address space that a process reserves: so many bytes, mostly for stacks
// and for the arenas of malloc, and for each byte of memory so many bytes, with
// processes and without. Measured.
constexpr int64_t kAddressSpace = 1300000000;
constexpr double kAddressFactor = 2;
constexpr double kAddressFactorOfOne = 2.5;

// Memory of the process that starts the others.
constexpr int64_t kLauncherBytes = 16 << 20;

bool HasConvolutions(const ModelSpec& model) {
  return model.has_cnn() || model.has_resnet();
}

MicroBatchMemoryInputs MemoryInputs(const JobSpec& job, const DataInfo& info,
                                    bool evaluates,
                                    const TrainingSources& sources) {
  return {job, info, evaluates, sources.plan_model};
}

// Returns the memory of the weights, gradients and activations of a worker with
// sharded weights.
absl::StatusOr<LayerMemory> PlanShardedMemory(
    const JobSpec& job, const DataInfo& info, int64_t micro_batches,
    int64_t max_samples, Device* device, const TrainingSources& sources) {
  const auto build = [&] { return sources.build_graph(job.model(), info); };
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, build());
  ParameterTable table = graph.table();
  table.set_chunk_elements(ChunkBytes(job.exchange()) / int64_t{sizeof(float)});
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<LayerwiseModel> model,
      LayerwiseModel::Create(build, layout, info, max_samples, device,
                             job.parallel().recompute()));
  return LayerRunner::MemoryFor(*model, layout,
                                static_cast<int>(micro_batches));
}

// The data, which are opened once.
struct OpenedData {
  DataInfo info;
  int64_t bytes = 0;
  bool evaluates = false;
};

absl::StatusOr<OpenedData> OpenData(const JobSpec& job,
                                    const TrainingSources& sources) {
  OpenedData opened;
  const int64_t before = MemoryBytes();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> data,
                             sources.open_data(job));
  opened.bytes = std::max<int64_t>(0, MemoryBytes() - before);
  opened.info = data->info();
  opened.evaluates =
      !job.evaluation().disabled() && data->evaluation_samples() > 0;
  return opened;
}

// Tries changes of one job.
class Fitter {
 public:
  Fitter(const FitInputs& inputs, const OpenedData& data, Device* device,
         const TrainingSources& sources)
      : inputs_(inputs), data_(data), device_(device), sources_(sources) {}

  absl::StatusOr<JobFit> Find() {
    const bool own_memory = device_->has_own_memory();
    const bool whole =
        sources_.build_graph != nullptr && !inputs_.job.model().has_synthetic();
    const bool shardable =
        whole && !own_memory && ResolveExchange(inputs_.job).servers_update &&
        ResolveExchange(inputs_.job).kind == ExchangeKind::kSynchronous &&
        !inputs_.job.parallel().has_pipeline() &&
        !inputs_.job.exchange().has_compression();
    for (const bool bfloat16 : {false, true}) {
      if (bfloat16 && inputs_.job.precision() != JobSpec::FLOAT32) break;
      for (const bool sharded : {false, true}) {
        if (sharded &&
            (!shardable || inputs_.job.parallel().sharded_weights())) {
          break;
        }
        for (const auto& [workers, threads] : Processes()) {
          for (const bool recompute : {false, true}) {
            if (recompute && (!whole || inputs_.job.parallel().recompute())) {
              break;
            }
            TRIBUTARY_ASSIGN_OR_RETURN(
                const bool fits,
                TryBatches(workers, threads, recompute, sharded, bfloat16));
            if (fits) return fit_;
          }
        }
      }
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no configuration of the job fits: it needs at least ",
        FormatMemory(least_.needed_bytes), " (", DescribeMemory(least_account_),
        "), and ", FormatMemory(least_.available_bytes), " are free",
        inputs_.process_bytes.has_value()
            ? absl::StrCat(", with an address space of ",
                           FormatMemory(*inputs_.process_bytes),
                           " for each process (ulimit -v)")
            : "",
        "; use a smaller model, or a machine with more memory"));
  }

 private:
  // The numbers of workers and threads to try.
  std::vector<std::pair<int64_t, int>> Processes() const {
    std::vector<std::pair<int64_t, int>> processes = {
        {inputs_.workers, inputs_.threads}};
    if (inputs_.threads > 1) processes.push_back({inputs_.workers, 1});
    if (inputs_.workers > 1 && !inputs_.fixed_workers &&
        !inputs_.job.parallel().has_pipeline() &&
        ResolveExchange(inputs_.job).kind != ExchangeKind::kAsynchronous) {
      processes.push_back({1, 1});
    }
    return processes;
  }

  // Tries numbers of micro-batches from that of the job on.
  absl::StatusOr<bool> TryBatches(int64_t workers, int threads, bool recompute,
                                  bool sharded, bool bfloat16) {
    const int64_t global = inputs_.job.batch().global();
    for (int64_t count = inputs_.job.batch().micro_batches();
         count <= kMostMicroBatches && global % count == 0; count *= 2) {
      JobFit fit;
      fit.job = inputs_.job;
      fit.workers = workers;
      fit.threads = threads;
      const auto set = [&fit](const std::string& change) {
        fit.changes.push_back(absl::StrCat("--set ", change));
      };
      if (count != inputs_.job.batch().micro_batches()) {
        fit.job.mutable_batch()->set_micro_batches(count);
        // It follows from the micro-batches unless the user has set it.
        fit.job.mutable_evaluation()->clear_batch();
        set(absl::StrCat("batch.micro_batches=", count));
      }
      if (recompute) {
        fit.job.mutable_parallel()->set_recompute(true);
        set("parallel.recompute=true");
      }
      if (threads != inputs_.threads) fit.changes.push_back("--threads 1");
      if (workers != inputs_.workers) fit.changes.push_back("--workers 1");
      if (sharded) {
        fit.job.mutable_parallel()->set_sharded_weights(true);
        set("parallel.sharded_weights=true");
      }
      if (bfloat16) {
        fit.job.set_precision(JobSpec::BFLOAT16);
        set("precision=BFLOAT16");
      }
      if (!ValidateJob(fit.job).ok()) continue;
      fit.job = ResolveJob(std::move(fit.job));
      TRIBUTARY_ASSIGN_OR_RETURN(const bool fits, Fits(&fit));
      if (!fits) continue;
      fit_ = std::move(fit);
      return true;
    }
    return false;
  }

  // Sets the fields of bytes. Remembers the job that needs the least.
  absl::StatusOr<bool> Fits(JobFit* fit) {
    FitInputs inputs = inputs_;
    inputs.job = fit->job;
    inputs.workers = fit->workers;
    inputs.threads = fit->threads;
    TRIBUTARY_ASSIGN_OR_RETURN(
        const HostMemory memory,
        PlanHostMemory(inputs, data_.info, data_.bytes, data_.evaluates,
                       device_, sources_));
    fit->needed_bytes = TotalBytes(memory.all);
    fit->available_bytes = inputs_.host_bytes.value_or(0);
    if (least_.needed_bytes == 0 || fit->needed_bytes < least_.needed_bytes) {
      least_ = *fit;
      least_account_ = memory.all;
    }
    const auto needed = static_cast<double>(fit->needed_bytes);
    if (inputs_.host_bytes.has_value() &&
        needed > kUsable * static_cast<double>(*inputs_.host_bytes)) {
      return false;
    }
    // A process maps most of what the others share with it.
    const double factor =
        inputs.one_process ? kAddressFactorOfOne : kAddressFactor;
    if (inputs_.process_bytes.has_value() &&
        kAddressSpace + factor * needed >
            static_cast<double>(*inputs_.process_bytes)) {
      return false;
    }
    if (!device_->has_own_memory()) return true;
    TRIBUTARY_ASSIGN_OR_RETURN(
        const MicroBatchMemory thread,
        PlanMicroBatchMemory(
            MemoryInputs(fit->job, data_.info, data_.evaluates, sources_),
            fit->job.batch().micro_batches(), *device_));
    const int64_t sharing =
        (fit->workers + inputs_.devices - 1) / inputs_.devices;
    const std::optional<int64_t> free = device_->AvailableMemoryBytes();
    return !free.has_value() ||
           thread.total() * fit->threads * sharing <= *free;
  }

  const FitInputs& inputs_;
  const OpenedData& data_;
  Device* const device_;
  const TrainingSources& sources_;
  JobFit fit_;
  JobFit least_;
  MemoryAccount least_account_;
};

}  // namespace

namespace {

// Returns the memory for rows on each server.
int64_t RowBytesOf(const JobSpec& job, int servers) {
  return job.has_sparse()
             ? ServerTableBytes(job, servers) + ServerStepRowBytes(job, servers)
             : 0;
}

}  // namespace

absl::StatusOr<HostMemory> PlanHostMemory(const FitInputs& inputs,
                                          const DataInfo& info,
                                          int64_t data_bytes, bool evaluates,
                                          Device* device,
                                          const TrainingSources& sources) {
  const JobSpec& job = inputs.job;
  const int64_t micro_batches = job.batch().micro_batches();
  const ExchangeTraits traits = ResolveExchange(job);
  const MicroBatchMemoryInputs memory_inputs =
      MemoryInputs(job, info, evaluates, sources);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ModelMemory model,
      sources.plan_model(job.model(), info,
                         MostSamples(memory_inputs, micro_batches), *device,
                         PartOf(job)));
  const int64_t elements = model.arena_bytes / int64_t{sizeof(float)};
  const bool sharded = job.parallel().sharded_weights();
  HostMemory memory;
  memory.server = ServerMemory(
      {job, (elements + inputs.servers - 1) / inputs.servers,
       static_cast<int>(inputs.workers),
       inputs.one_host && !sharded && SharesMemory(job, SharedPart::kGradients),
       RowBytesOf(job, inputs.servers)});
  WorkerLoad load = {job};
  load.elements = elements;
  load.workers = static_cast<int>(inputs.workers);
  load.threads = inputs.threads;
  load.micro_batches =
      traits.whole_batches
          ? micro_batches
          : (micro_batches + inputs.workers - 1) / inputs.workers;
  load.shares_memory =
      inputs.one_host && SharesMemory(job, SharedPart::kWeights);
  load.data_bytes = data_bytes;
  if (!device->has_own_memory()) {
    load.activation_bytes = model.activation_bytes;
    if (HasConvolutions(job.model())) {
      load.workspace_bytes = static_cast<int64_t>(
          kConvolutionWorkspace * static_cast<double>(model.activation_bytes));
    }
  }
  memory.worker = WorkerMemory(load);
  if (sharded) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const LayerMemory parts,
        PlanShardedMemory(job, info, load.micro_batches,
                          MostSamples(memory_inputs, micro_batches), device,
                          sources));
    memory.worker.set_weights(parts.weights);
    memory.worker.set_gradients(parts.gradients);
    memory.worker.set_activations(parts.activations);
  }
  for (int i = 0; i < inputs.servers; ++i) Add(memory.server, &memory.all);
  for (int64_t i = 0; i < inputs.workers; ++i) Add(memory.worker, &memory.all);
  memory.all.set_program(kLauncherBytes + (inputs.one_process
                                               ? memory.worker.program()
                                               : memory.all.program()));
  return memory;
}

absl::StatusOr<JobFit> FitJob(const FitInputs& inputs, Device* device,
                              const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(const OpenedData data,
                             OpenData(inputs.job, sources));
  return Fitter(inputs, data, device, sources).Find();
}

}  // namespace tributary
