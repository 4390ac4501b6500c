#include "worker/process/worker_part.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/os/logger.h"
#include "common/plan/memory_account.h"
#include "worker/process/gpu_meter.h"
#include "worker/process/worker_metrics.h"
#include "worker/training/trainer.h"
#include "worker/training/worker_account.h"

namespace tributary {
namespace {

// Parts of a tensor in a message of a megabyte.
constexpr int kPartsPerMessage = 256;

// Returns null if the job traces no steps.
std::unique_ptr<TraceSender> MakeTrace(const JobSpec& job,
                                       MembershipClient* membership) {
  const std::optional<TracedSteps> steps =
      TracedStepsOf(job, ResolveExchange(job).steps_per_round);
  if (!steps.has_value()) return nullptr;
  return std::make_unique<TraceSender>(
      *steps, TraceSender::Send::In<WorkerReport>(
                  [membership](const WorkerReport& report) {
                    membership->Send(report);
                  }));
}

}  // namespace

WorkerPart::WorkerPart(const WorkerOptions& options, const Admission& admission,
                       TrainingSetup* setup, MembershipClient* membership,
                       absl::Duration beat, StayFacts* stay)
    : options_(options),
      admission_(admission),
      setup_(setup),
      membership_(membership),
      beat_(beat),
      stay_(stay),
      trace_(MakeTrace(admission.job(), membership)),
      threads_(setup->threads()),
      micro_batches_(
          static_cast<int>(admission.job().batch().micro_batches())) {}

WorkerPart::~WorkerPart() { membership_->SetReading(nullptr); }

void WorkerPart::Beat(const char* phase) {
  pulse_ = std::make_unique<Pulse>(beat_, [this, phase] {
    WorkerReport report;
    report.mutable_heartbeat()->set_phase(phase);
    membership_->Send(report);
  });
}

ProcessStatistics WorkerPart::Statistics(const Trainer& trainer,
                                         const Exchange& exchange) {
  ProcessStatistics statistics = trainer.Progress().statistics();
  exchange.FillStatistics(&statistics);
  meter_.Fill(&statistics);
  const auto all = static_cast<int>(admission_.job().batch().micro_batches());
  WorkerShare share;
  share.micro_batches = micro_batches_;
  share.threads = threads_;
  // In an all-reduce, the members agree on their micro-batches before Train. In
  // a pipeline, micro-batches are not counted.
  if (setup_->traits().fixed_members && statistics.steps() > 0 &&
      statistics.leaves() > 0) {
    share.micro_batches = static_cast<int>(
        std::max<int64_t>(1, statistics.leaves() / statistics.steps()));
  }
  share.workers = (all + share.micro_batches - 1) / share.micro_batches;
  share.shares_memory =
      SharesMemory(admission_.job(), SharedPart::kWeights) &&
      statistics.shared_bytes_sent() + statistics.shared_bytes_received() > 0;
  const WorkerAccount account = AccountOf(*setup_, trainer.runner(), share);
  *statistics.mutable_memory_account() = account.host;
  if (account.device.has_value()) {
    *statistics.mutable_device_account() = *account.device;
  }
  return statistics;
}

void WorkerPart::NoteAssignment(const Deal& deal) {
  if (setup_->traits().whole_batches || deal.leaf_end() <= deal.leaf_begin()) {
    return;
  }
  micro_batches_ = deal.leaf_end() - deal.leaf_begin();
}

void WorkerPart::CheckDevices() {
  for (int thread = 0; thread < setup_->threads(); ++thread) {
    if (!setup_->device(thread)->Synchronize().ok()) {
      stay_->device_failed = true;
    }
  }
}

void WorkerPart::SendUntrained() {
  const std::optional<int64_t> version = membership_->untrained_due();
  if (!version.has_value()) return;
  const std::vector<UntrainedTensor> tensors =
      options_.untrained(setup_->rounds().StepsAfter(*version));
  int64_t total = 0;
  for (const UntrainedTensor& tensor : tensors) {
    total += static_cast<int64_t>(tensor.data.size());
  }
  WorkerReport last;
  last.mutable_untrained()->set_last(true);
  if (total > kMaxUntrainedBytes) {
    options_.log->Warning(
        "the final model lacks the frozen parameters and buffers of the "
        "module, which have %d bytes, more than %d",
        total, kMaxUntrainedBytes);
    membership_->Send(last);
    return;
  }
  const auto part_bytes = static_cast<size_t>(kDefaultLimits.text_bytes);
  for (const UntrainedTensor& tensor : tensors) {
    size_t begin = 0;
    do {
      WorkerReport report;
      UntrainedTensorPart* const part = report.mutable_untrained();
      part->set_name(tensor.name);
      part->set_dtype(tensor.dtype);
      for (const int64_t size : tensor.shape) part->add_shape(size);
      for (int i = 0; i < kPartsPerMessage && begin < tensor.data.size(); ++i) {
        part->add_data(tensor.data.substr(begin, part_bytes));
        begin += part_bytes;
      }
      membership_->Send(report);
    } while (begin < tensor.data.size());
  }
  membership_->Send(last);
}

absl::Status WorkerPart::Train(WorkState* state, Exchange* exchange,
                               const ComputedParts& parts) {
  const absl::Cleanup forget = [this] {
    membership_->SetSave(nullptr);
    membership_->SetDeal(nullptr);
  };
  membership_->SetDeal([this, exchange, parts](const Deal& deal) {
    NoteAssignment(deal);
    if (parts.stages != nullptr) parts.stages->on_deal(deal);
    exchange->ShowAssignment(deal);
  });
  Trainer::Hooks hooks;
  hooks.report = [this](const WorkerReport& report) {
    membership_->Send(report);
  };
  hooks.warn = [this](const std::string& line) {
    options_.log->Warning("%s", line);
  };
  hooks.step_done = [this] {
    pulse_->BeatEarly();
    if (!std::exchange(notified_, true)) options_.log->Notify(kStepNotice);
  };
  hooks.clock = options_.clock;
  hooks.trace = recorder();
  Trainer trainer(setup_, state, exchange, hooks, parts);
  const GpuMeter gpu_meter(setup_->device(/*thread=*/0)->bus_id());
  pulse_ = std::make_unique<Pulse>(beat_, [&] {
    WorkerReport report;
    *report.mutable_heartbeat() = trainer.Progress();
    *report.mutable_heartbeat()->mutable_statistics() =
        Statistics(trainer, *exchange);
    gpu_meter.Fill(report.mutable_heartbeat()->mutable_statistics());
    membership_->Send(report);
    if (trace_ != nullptr) {
      trace_->Beat(setup_->rounds().RoundsFor(report.heartbeat().step()));
    }
  });
  if (trace_ != nullptr && !std::exchange(trace_begun_, true)) {
    membership_->SetReading(
        [this](const ClockReading& reading) { trace_->OnReading(reading); });
    trace_->Begin();
  }
  const MetricsRegistry::Registration metrics =
      MetricsRegistry::Add(options_.metrics, [&](MetricsPage* page) {
        Heartbeat heartbeat = trainer.Progress();
        *heartbeat.mutable_statistics() = Statistics(trainer, *exchange);
        AddWorkerMetrics(admission_.rank(), heartbeat, page);
        const std::string gpu = setup_->device(/*thread=*/0)->bus_id();
        if (!gpu.empty()) AddGpuMetrics(gpu, page);
      });
  const absl::Status trained = trainer.Run();
  stay_->failed_here = !trained.ok() && state->status().ok();
  if (trained.ok()) SendUntrained();
  pulse_.reset();
  if (!trained.ok()) CheckDevices();
  if (!trained.ok() && exchange->device() != nullptr &&
      !exchange->device()->Synchronize().ok()) {
    stay_->device_failed = true;
  }
  TRIBUTARY_RETURN_IF_ERROR(trained);
  exchange->Finish();
  if (trace_ != nullptr) trace_->Finish();
  WorkerReport farewell;
  *farewell.mutable_farewell()->mutable_statistics() =
      Statistics(trainer, *exchange);
  membership_->Send(farewell);
  return absl::OkStatus();
}

}  // namespace tributary
