#include "worker/process/worker_process.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/exit_code.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/pulse.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "common/os/shared_memory.h"
#include "common/text/counted.h"
#include "common/text/release.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_sender.h"
#include "common/transport/channel.h"
#include "proto/rendezvous.pb.h"
#include "worker/models/stages/layerwise_model.h"
#include "worker/process/all_reduce_part.h"
#include "worker/process/gpu_meter.h"
#include "worker/process/membership_client.h"
#include "worker/process/pipeline_part.h"
#include "worker/process/worker_exchange.h"
#include "worker/process/worker_part.h"
#include "worker/state/work_state.h"
#include "worker/training/layer_runner.h"
#include "worker/training/trainer.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

// Several heartbeats must fit into a lease, so that losing one does not end it.
constexpr int kBeatsPerLease = 10;
// Interval while the lease is unknown. The shortest lease is one second.
constexpr absl::Duration kEarlyBeat = absl::Milliseconds(250);

// Longest time that a server still answers after it has stopped the job.
constexpr absl::Duration kStopTime = absl::Seconds(30);

// Marks the errors for which DeviceHasFailed returns true.
constexpr char kDeviceFailure[] = "tributary/device_failure";

// Returns the worker's exit code for this error. Errors that the user must
// correct in the job or its data count as bad usage.
int ExitCodeOf(const absl::Status& status) {
  if (DeviceHasFailed(status)) return kExitPreempted;
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status)
             ? kExitUsage
             : kExitFailed;
}

// Most warnings about data that are logged one by one.
constexpr size_t kLoggedWarnings = 20;

void LogWarnings(const std::vector<std::string>& warnings, Logger* log) {
  for (size_t i = 0; i < warnings.size() && i < kLoggedWarnings; ++i) {
    log->Warning("%s", warnings[i]);
  }
  if (warnings.size() > kLoggedWarnings) {
    log->Warning("%d more warnings about the data are not shown",
                 warnings.size() - kLoggedWarnings);
  }
}

// Returns the model of a worker with sharded weights, with the memory for one
// micro-batch.
absl::StatusOr<std::unique_ptr<LayerwiseModel>> MakeLayers(
    const TrainingSetup& setup, Logger* log) {
  Device* const device = setup.device(/*thread=*/0);
  if (device->has_own_memory()) {
    return absl::InvalidArgumentError(
        "parallel.sharded_weights computes on CPUs only; start the workers "
        "with --device cpu, or leave parallel.sharded_weights out");
  }
  const int64_t before = MemoryBytes();
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<LayerwiseModel> layers,
      LayerwiseModel::Create([&setup] { return setup.BuildGraph(); },
                             setup.layout(), setup.data().info(),
                             setup.max_samples(), device,
                             setup.job().parallel().recompute()));
  const LayerMemory memory = LayerRunner::MemoryFor(
      *layers, setup.layout(),
      static_cast<int>(setup.job().batch().micro_batches()));
  const int64_t total =
      before + memory.weights + memory.gradients + memory.activations;
  log->Info(
      "computes %d groups of layers, one after the other; needs %.1f MB, of "
      "which %.1f MB for weights, %.1f MB for gradients and %.1f MB for "
      "activations",
      layers->groups(), 1e-6 * static_cast<double>(total),
      1e-6 * static_cast<double>(memory.weights),
      1e-6 * static_cast<double>(memory.gradients),
      1e-6 * static_cast<double>(memory.activations));
  return layers;
}

// Takes part in a job from Admission to Farewell.
absl::Status TakePart(const WorkerOptions& options,
                      MembershipClient* membership,
                      const std::function<void(WorkState*)>& on_state,
                      StayFacts* stay) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W1"));
  // Heartbeats keep the lease, whose length is not known yet, while servers
  // join.
  auto pulse = std::make_unique<Pulse>(
      std::min(options.heartbeat_interval, kEarlyBeat), [membership] {
        WorkerReport report;
        report.mutable_heartbeat()->set_phase("idle");
        membership->Send(report);
      });
  TRIBUTARY_ASSIGN_OR_RETURN(const Admission admission,
                             membership->AwaitAdmission());
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W2"));
  if (options.on_joined) options.on_joined(true);
  if (options.on_admitted) {
    options.on_admitted(admission.rank(), admission.workers());
  }
  options.log->SetRank(admission.rank());
  options.log->Info("admitted as rank %d", admission.rank());
  const absl::Duration beat =
      std::min(options.heartbeat_interval,
               absl::Milliseconds(admission.lease_ms()) / kBeatsPerLease);
  // Heartbeats keep the lease while large data sets are opened.
  pulse = std::make_unique<Pulse>(beat, [membership] {
    WorkerReport report;
    report.mutable_heartbeat()->set_phase("data");
    membership->Send(report);
  });
  absl::StatusOr<std::unique_ptr<TrainingSetup>> made = TrainingSetup::Create(
      admission.job(), options.threads, options.make_device, options.sources);
  // Internal is the error of a device; see Device::Synchronize.
  stay->device_failed = absl::IsInternal(made.status());
  stay->failed_here = !made.ok();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingSetup> setup,
                             std::move(made));
  TRIBUTARY_RETURN_IF_ERROR(CheckRule(options, admission.job()));
  options.log->Info("computes on %s", setup->device(/*thread=*/0)->name());
  LogWarnings(setup->data().warnings(), options.log);
  // A program's micro-batches have a number of threads of their own.
  if (setup->threads() < options.threads &&
      !options.sources.queues_micro_batches &&
      !ComputesInParts(admission.job())) {
    options.log->Warning(
        "memory suffices for %s at a time, of %d bytes each, not for --threads "
        "%d; the result stays the same",
        Counted(setup->threads(), "micro-batch", "micro-batches"),
        setup->thread_memory().total(), options.threads);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      NcclLibrary* const nccl,
      FindNccl(options, admission.job(), *setup->device(/*thread=*/0)));
  WorkState::Options state_options;
  state_options.steps = setup->rounds().count();
  state_options.evaluates = setup->facts().evaluation_pieces() > 0;
  state_options.evaluate_every =
      setup->rounds().RoundsFor(admission.job().evaluation().every_steps());
  state_options.fetches = admission.job().parallel().sharded_weights();
  if (admission.job().has_sparse()) {
    state_options.table_servers = admission.server_address_size();
  }
  const std::unique_ptr<WorkState> state =
      WorkState::Create(admission.job(), state_options, &setup->layout());
  membership->Attach(state.get());
  on_state(state.get());
  // Nothing may access the state after this function returns, even on errors.
  const absl::Cleanup detach = [&] {
    on_state(nullptr);
    membership->Detach();
  };
  WorkerReport ready;
  *ready.mutable_ready()->mutable_table() = setup->table();
  *ready.mutable_ready()->mutable_data() = setup->facts();
  ready.mutable_ready()->set_device(setup->device(/*thread=*/0)->name());
  ready.mutable_ready()->set_has_untrained(options.has_untrained != nullptr &&
                                           options.has_untrained());
  if (nccl != nullptr) {
    ready.mutable_ready()->set_nccl_device(absl::StrCat(
        HostIdentity(), " ", setup->device(/*thread=*/0)->bus_id()));
  }
  std::unique_ptr<PipelinePart> pipeline;
  if (admission.job().parallel().has_pipeline()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        pipeline,
        PipelinePart::Create(options, admission, setup.get(), membership));
    pipeline->FillReady(ready.mutable_ready());
  }
  std::unique_ptr<LayerwiseModel> layers;
  if (admission.job().parallel().sharded_weights()) {
    TRIBUTARY_ASSIGN_OR_RETURN(layers, MakeLayers(*setup, options.log));
  }
  membership->Send(ready);
  TRIBUTARY_ASSIGN_OR_RETURN(const Open open, membership->AwaitOpen());

  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W3"));
  WorkerPart part(options, admission, setup.get(), membership, beat, stay);
  if (pipeline != nullptr) {
    pulse.reset();
    return pipeline->Run(&part, open, state_options, state.get(), on_state);
  }
  absl::StatusOr<std::unique_ptr<Exchange>> joined =
      setup->traits().workers_exchange_directly
          ? JoinAllReduce(options, admission, open, nccl, setup.get(),
                          part.recorder(), /*stages=*/nullptr, membership,
                          state.get())
          : ConnectToServers(options, admission, *setup, part.recorder(),
                             state.get());
  if (!joined.ok()) part.CheckDevices();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Exchange> exchange,
                             std::move(joined));
  pulse.reset();
  return part.Train(state.get(), exchange.get(), {nullptr, layers.get()});
}

// Forwards a request to stop to the objects that currently exist.
class Stopper {
 public:
  explicit Stopper(MembershipClient* membership) : membership_(membership) {}

  void SetState(WorkState* state) {
    absl::MutexLock lock(&mu_);
    state_ = state;
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    if (state_ != nullptr) {
      state_->Fail(absl::CancelledError("stopped by request"));
    }
    membership_->Cancel();
  }

 private:
  MembershipClient* const membership_;
  absl::Mutex mu_;
  WorkState* state_ ABSL_GUARDED_BY(mu_) = nullptr;
};

// Takes part in a job once, from connecting to disconnecting.
absl::Status Stay(const WorkerOptions& options, Shutdown* shutdown,
                  absl::Duration connect_timeout, StayFacts* stay) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<MembershipStream> stream,
                             options.network->ConnectToCoordinator(
                                 options.coordinator, connect_timeout,
                                 [shutdown] { return shutdown->requested(); }));
  MembershipClient membership;
  Stopper stopper(&membership);
  Join join;
  join.set_protocol_version(kProtocolVersion);
  join.set_rank(options.rank);
  join.set_host(HostName());
  join.set_pid(getpid());
  join.set_release(ReleaseName());
  membership.Begin(std::move(stream), options.coordinator, join);
  const Shutdown::Registration stop =
      shutdown->OnRequest([&stopper] { stopper.Stop(); });
  absl::Status status = TakePart(
      options, &membership, [&](WorkState* state) { stopper.SetState(state); },
      stay);
  if (options.on_joined) options.on_joined(false);
  stay->admitted = membership.admitted();
  stay->over = membership.stopped();
  if (stay->over) status = absl::CancelledError("the job was stopped");
  if (IsJobDone(status)) {
    // The other workers have finished the job.
    options.log->Info("%s", std::string(status.message()));
    status = absl::OkStatus();
  }
  if (stay->device_failed && !absl::IsResourceExhausted(status)) {
    status.SetPayload(kDeviceFailure, absl::Cord());
  }
  const bool token_changes = absl::IsUnauthenticated(status) && stay->admitted;
  // An unknown error of the system, such as that of a disk, would come back.
  if (stay->failed_here && absl::IsUnknown(status)) {
    status = absl::FailedPreconditionError(status.message());
  }
  const bool rejoins =
      (IsTransient(status) || token_changes) && !stay->device_failed;
  if (!status.ok() && !shutdown->requested() && !rejoins) {
    WorkerReport report;
    report.mutable_failure()->set_message(std::string(status.message()));
    report.mutable_failure()->set_exit_code(ExitCodeOf(status));
    membership.Send(report);
  }
  if (status.ok() || !rejoins) {
    membership.HalfClose();
  } else {
    membership.Cancel();
  }
  membership.AwaitDone();
  if (shutdown->requested()) return absl::CancelledError("stopped by request");
  return status;
}

}  // namespace

bool DeviceHasFailed(const absl::Status& status) {
  return status.GetPayload(kDeviceFailure).has_value();
}

absl::Status RunWorker(const WorkerOptions& worker_options,
                       Shutdown* shutdown) {
  WorkerOptions options = worker_options;
  std::unique_ptr<WorkerNetwork> network;
  if (options.network == nullptr) {
    network = MakeGrpcWorkerNetwork(options.security);
    options.network = network.get();
  }
  Backoff backoff;
  bool was_in = false;
  const absl::Time patience_ends = MonotonicNow() + options.connect_timeout;
  absl::Time last_admitted = absl::InfinitePast();
  absl::Time last_stopped = absl::InfinitePast();
  while (true) {
    StayFacts stay;
    const absl::Status status = Stay(
        options, shutdown,
        was_in ? options.reconnect_timeout : options.connect_timeout, &stay);
    // Once admitted, the worker uses the longer time limit for reconnecting.
    was_in = was_in || stay.admitted;
    if (stay.admitted) last_admitted = MonotonicNow();
    if (stay.over && options.await_resume) last_stopped = MonotonicNow();
    // A worker that was admitted before is refused only until both processes
    // have read the new token.
    const bool token_changes =
        absl::IsUnauthenticated(status) &&
        MonotonicNow() - last_admitted < options.reconnect_timeout;
    // The coordinator that has stopped the job refuses workers until it ends.
    const bool still_ends = absl::IsFailedPrecondition(status) &&
                            MonotonicNow() - last_stopped < kStopTime;
    if (status.ok() || shutdown->requested() ||
        (stay.over && !options.await_resume) || stay.device_failed ||
        (!IsTransient(status) && !token_changes && !still_ends) ||
        (!was_in && MonotonicNow() > patience_ends)) {
      return status;
    }
    options.log->Warning("%s; joining again", std::string(status.message()));
    if (!backoff.Wait(shutdown)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

}  // namespace tributary
