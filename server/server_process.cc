#include "server/server_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/failpoint.h"
#include "common/job.h"
#include "common/log.h"
#include "common/pulse.h"
#include "common/retry.h"
#include "common/shared_memory.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/grpcpp.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpointer.h"
#include "server/coordinator.h"
#include "server/coordinator_service.h"
#include "server/enlistment.h"
#include "server/listener.h"
#include "server/local_server.h"
#include "server/parameter_server_service.h"
#include "server/run_output.h"

namespace tributary {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// Of looks at the number of the newest attempt.
constexpr absl::Duration kFencingInterval = absl::Seconds(1);
// For streams that were told to end; after it they are cut.
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
// The same when the attempt is over anyway.
constexpr absl::Duration kCutTimeout = absl::Milliseconds(200);
constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
// After a server was lost: workers that were there come back at once, or later
// in the middle.
constexpr absl::Duration kRecoveryTimeout = absl::Seconds(5);
constexpr absl::Duration kServerHeartbeat = absl::Milliseconds(500);
// For the coordinator to notice that this server's last connection is gone.
constexpr absl::Duration kOldSelfTimeout = absl::Seconds(30);
constexpr absl::Duration kReadWeightsTimeout = absl::Minutes(10);

// The coordinator's own server, in the same process.
class LocalLink final : public ServerLink {
 public:
  LocalLink(LocalServer* server, Logger* log) : server_(server), log_(log) {}
  void Send(const ServerOrder& order) override {
    const absl::Status status = server_->Handle(order);
    if (!status.ok()) log_->Error("order refused: %s", status.ToString());
  }
  void Close(const absl::Status&) override {}

 private:
  LocalServer* const server_;
  Logger* const log_;
};

// A name that nobody else has, for workers on this host.
LocalAddress MakeLocalAddress() {
  LocalAddress local;
  local.set_host(HostIdentity());
  std::random_device random;
  local.set_address(absl::StrCat("unix-abstract:tributary-", getpid(), "-",
                                 absl::Hex(random(), absl::kZeroPad8),
                                 absl::Hex(random(), absl::kZeroPad8)));
  return local;
}

// The part of host:port before the last colon.
std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

// Listens, and says so. `*address` is where others reach this server.
absl::StatusOr<std::unique_ptr<Listener>> Listen(
    const ServerOptions& options, const LocalAddress& local,
    const std::vector<grpc::Service*>& services, std::string* address) {
  Listener::Options listen;
  listen.network = options.listen;
  listen.unix_socket = local.address();
  listen.security = options.security;
  listen.limits = options.limits;
  listen.log = options.log;
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                             Listener::Start(listen, services));
  *address = absl::StrCat(HostOf(options.listen), ":", listener->port());
  if (!options.advertise.empty()) {
    *address = options.advertise.find(':') == std::string::npos
                   ? absl::StrCat(options.advertise, ":", listener->port())
                   : options.advertise;
  }
  if (options.on_listening) options.on_listening(*address);
  return listener;
}

// Reads a remote server's chunks at `version` into the arena.
absl::Status ReadRemote(const std::string& address, const Security& security,
                        int64_t version, const ArenaLayout& layout,
                        float* arena) {
  std::unique_ptr<ParameterServer::Stub> stub =
      ParameterServer::NewStub(CreateChannel(address, security));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kReadWeightsTimeout));
  ReadWeightsRequest request;
  request.set_version(version);
  std::unique_ptr<grpc::ClientReader<ServerMessage>> reader =
      stub->ReadWeights(&context, request);
  ServerMessage message;
  while (reader->Read(&message)) {
    const Weights& weights = message.weights();
    if (weights.chunk() < 0 || weights.chunk() >= layout.chunk_count() ||
        weights.payload().size() !=
            layout.ChunkSize(weights.chunk()) * sizeof(float)) {
      return absl::DataLossError(
          absl::StrCat(address, ": chunk ", weights.chunk(), " of ",
                       weights.payload().size(), " bytes does not fit"));
    }
    std::copy_n(
        weights.payload().data(), weights.payload().size(),
        reinterpret_cast<char*>(arena + layout.ChunkBegin(weights.chunk())));
  }
  return FromGrpc(reader->Finish(), address);
}

// The whole model at `version`, from this server and the others.
absl::Status ReadModel(ParameterStore* store, int64_t version,
                       const std::vector<std::string>& addresses,
                       const Security& security, float* arena) {
  for (const int chunk : store->chunk_numbers()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const WeightsVersion weights,
                               store->Read(chunk, version));
    std::memcpy(arena + store->layout().ChunkBegin(chunk), weights.values.data,
                weights.values.bytes);
  }
  for (size_t shard = 1; shard < addresses.size(); ++shard) {
    TRIBUTARY_RETURN_IF_ERROR(ReadRemote(addresses[shard], security, version,
                                         store->layout(), arena));
  }
  return absl::OkStatus();
}

// ReadModel, once the servers have applied the last step. Every worker that
// says farewell has seen that; without one (the last was lost after its last
// push) it is a matter of milliseconds.
absl::Status ReadFinalModel(ParameterStore* store, int64_t version,
                            const std::vector<std::string>& addresses,
                            const Security& security, float* arena) {
  const absl::Time deadline = absl::Now() + kDrainTimeout;
  absl::Status status;
  do {
    status = ReadModel(store, version, addresses, security, arena);
    if (!absl::IsFailedPrecondition(status)) return status;
    absl::SleepFor(kTick);
  } while (absl::Now() < deadline);
  return status;
}

// Follows the attempt to its end. Looks now and then whether another
// coordinator, started while this one stood still, has begun a newer one: it
// must not keep what servers and workers still believe in this one.
Coordinator::Ending FollowAttempt(Coordinator* coordinator,
                                  const RunOutput& output, int64_t attempt,
                                  Shutdown* shutdown) {
  Coordinator::Ending ending = Coordinator::Ending::kNone;
  absl::Time looked = absl::Now();
  while (ending == Coordinator::Ending::kNone) {
    ending = coordinator->AwaitEnding(kTick);
    coordinator->Tick();
    if (absl::Now() - looked > kFencingInterval) {
      looked = absl::Now();
      const absl::Status current = output.CheckAttempt(attempt);
      if (absl::IsFailedPrecondition(current)) coordinator->Overtaken(current);
    }
    if (shutdown->requested()) {
      FailpointOrDie("S18");
      coordinator->Drain();
    }
  }
  return ending;
}

// The same from the job's last checkpoint, when a server is gone that has the
// model.
absl::Status ReadSavedModel(const ServerOptions& options, int64_t version,
                            const ArenaLayout& layout, const Buffer& arena) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<CheckpointName> checkpoints,
      ListCheckpoints(CheckpointsFolder(options.output_directory)));
  const std::string folder =
      checkpoints.empty() ? options.resume_from : checkpoints.front().path;
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(folder));
  if (manifest.version() != version) return absl::NotFoundError(folder);
  manifest.clear_state();
  Snapshot model;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    model.chunks.push_back(
        {chunk, Buffer(arena, arena.get() + layout.ChunkBegin(chunk)), {}});
  }
  return ReadShard(folder, manifest, layout, &model);
}

absl::Status WriteResults(Coordinator* coordinator, int64_t attempt,
                          bool trained, const LocalServer& local,
                          const ServerOptions& options, RunOutput* output) {
  absl::Status status = coordinator->status();
  const std::optional<ArenaLayout> layout = coordinator->layout();
  std::string digest;
  if (status.ok() && trained && layout.has_value()) {
    BufferPool arenas(layout->arena_elements());
    const Buffer arena = arenas.Take();
    const int64_t version = coordinator->final_version();
    // There is none where all was computed before this attempt began.
    ParameterStore* const store = local.store();
    status =
        store == nullptr
            ? absl::UnavailableError("the model is in the checkpoint")
            : ReadFinalModel(store, version, coordinator->server_addresses(),
                             options.security, arena.get());
    if (!status.ok()) {
      const absl::Status saved =
          ReadSavedModel(options, version, *layout, arena);
      if (saved.ok()) {
        options.log->Info("the model is that of the last checkpoint: %s",
                          std::string(status.message()));
        status = absl::OkStatus();
      } else if (store == nullptr) {
        status = saved;
      }
    }
    // Servers that have gone over to a newer attempt have its weights.
    const absl::Status current = output->CheckAttempt(attempt);
    if (absl::IsFailedPrecondition(current)) {
      coordinator->Overtaken(current);
      return current;
    }
    if (status.ok()) {
      absl::StatusOr<std::string> written =
          output->WriteModel(*layout, arena.get());
      status = written.status();
      if (written.ok()) digest = *written;
    }
    if (!status.ok()) coordinator->Fail(status);
  }
  coordinator->FinishServers();
  ServerReport farewell;
  *farewell.mutable_farewell()->mutable_statistics() = local.Statistics();
  (void)coordinator->OnServerReport(0, farewell);
  coordinator->ServerGone(0);
  if (!coordinator->AwaitServersGone(kDrainTimeout)) {
    options.log->Warning("some servers did not say goodbye");
  }
  nlohmann::ordered_json summary = coordinator->Summary();
  if (!digest.empty()) summary["weights_sha256"] = digest;
  const absl::Status written = output->WriteSummary(summary);
  return status.ok() ? written : status;
}

// Where an attempt begins.
class ResumeChooser {
 public:
  explicit ResumeChooser(const ServerOptions& options)
      : options_(options),
        own_(CheckpointsFolder(options.output_directory)),
        use_own_(options.resume) {}

  // From now on this run's own checkpoints count: they are newer.
  void UseOwn() { use_own_ = true; }
  // It cannot be used.
  void SetDamaged(const std::string& folder) { damaged_.insert(folder); }

  // Of the good ones the newest; nullopt: from the start.
  absl::StatusOr<std::optional<ResumePoint>> Choose() {
    if (use_own_) {
      TRIBUTARY_ASSIGN_OR_RETURN(std::optional<ResumePoint> found,
                                 NewestIn(own_));
      if (found.has_value()) return found;
    }
    if (options_.resume_from.empty()) return std::optional<ResumePoint>();
    // A checkpoint itself, or a run's folder.
    std::optional<ResumePoint> found = Try(options_.resume_from);
    if (!found.has_value()) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          found, NewestIn(CheckpointsFolder(options_.resume_from)));
    }
    if (found.has_value()) return found;
    return absl::NotFoundError(
        absl::StrCat("no checkpoint that can be used in ", options_.resume_from,
                     "; see `tributary checkpoint ls`"));
  }

 private:
  absl::StatusOr<std::optional<ResumePoint>> NewestIn(
      const std::string& folder) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                               ListCheckpoints(folder));
    for (const CheckpointName& checkpoint : checkpoints) {
      std::optional<ResumePoint> found = Try(checkpoint.path);
      if (found.has_value()) return found;
      if (damaged_.insert(checkpoint.path).second) {
        options_.log->Error("%s has no manifest: it is passed over",
                            checkpoint.path);
      }
    }
    return std::optional<ResumePoint>();
  }

  std::optional<ResumePoint> Try(const std::string& folder) {
    if (damaged_.count(folder) > 0) return std::nullopt;
    absl::StatusOr<CheckpointManifest> manifest = ReadManifest(folder);
    absl::Status status = manifest.status();
    if (status.ok()) {
      if (!IsOfThisJob(*manifest)) {
        options_.log->Warning(
            "the job is not the one of %s: the result will be neither's",
            folder);
        manifest->set_complete(false);
      }
      // Where nothing is left to compute nobody else looks at it.
      if (manifest->complete()) status = VerifyCheckpoint(folder);
    }
    if (status.ok()) return ResumePoint{folder, *std::move(manifest)};
    if (!absl::IsNotFound(status)) {
      options_.log->Error("this checkpoint cannot be used: %s",
                          std::string(status.message()));
      SetDamaged(folder);
    }
    return std::nullopt;
  }

  // But for what does not change the result.
  bool IsOfThisJob(const CheckpointManifest& manifest) const {
    const auto comparable = [](JobSpec job) {
      job.clear_name();
      job.clear_output();
      job.clear_checkpoint();
      job.clear_evaluation();
      return job.SerializeAsString();
    };
    const absl::StatusOr<JobSpec> was = ParseJob(manifest.job(), "manifest");
    return was.ok() && comparable(*was) == comparable(options_.job);
  }

  const ServerOptions& options_;
  const std::string own_;
  bool use_own_;
  std::set<std::string> damaged_;
};

// What lasts longer than an attempt.
struct CoordinatorRun {
  const ServerOptions* options = nullptr;
  Shutdown* shutdown = nullptr;
  RunOutput* output = nullptr;
  // Where to listen: after the first attempt always the same port, which peers
  // know.
  ServerOptions listen;
  int expected_workers = 1;
  absl::Duration start_timeout;
};

struct AttemptEnd {
  Coordinator::Ending ending = Coordinator::Ending::kNone;
  absl::Status status;
  int64_t checkpoint_step = -1;
};

absl::StatusOr<AttemptEnd> RunAttempt(CoordinatorRun* run, int64_t attempt,
                                      std::optional<ResumePoint> resume) {
  const ServerOptions& options = *run->options;
  RunOutput* const output = run->output;
  Checkpointer::Options checkpoints;
  checkpoints.folder = CheckpointsFolder(options.output_directory);
  checkpoints.retention = {options.job.checkpoint().keep_last(),
                           options.job.checkpoint().keep_every()};
  checkpoints.still_current = [output, attempt] {
    return output->CheckAttempt(attempt);
  };
  Coordinator* told = nullptr;
  checkpoints.superseded = [&told](const absl::Status& why) {
    told->Overtaken(why);
  };
  checkpoints.log = options.log;
  Checkpointer checkpointer(std::move(checkpoints));
  Coordinator::Options job;
  job.job = options.job;
  job.servers = options.servers;
  job.expected_workers = run->expected_workers;
  job.max_workers = options.limits.workers;
  job.start_timeout = run->start_timeout;
  job.lease = options.lease;
  job.no_worker_timeout = options.no_worker_timeout;
  job.no_server_timeout = options.no_server_timeout;
  job.attempt = attempt;
  job.resume = std::move(resume);
  job.checkpoints = &checkpointer;
  Coordinator coordinator(job, &absl::Now,
                          [output](const nlohmann::ordered_json& line) {
                            output->AppendMetrics(line);
                          });
  told = &coordinator;
  checkpointer.SetCoordinator(&coordinator);
  const absl::Cleanup stop_checkpointer = [&] { checkpointer.Stop(); };
  CoordinatorService coordinator_service(&coordinator);
  ParameterServerService service(/*shard=*/0);
  LocalServer local(
      /*shard=*/0, options.threads, &service,
      [&coordinator](const ServerReport& report) {
        const absl::Status status =
            coordinator.OnServerReport(/*shard=*/0, report);
        if (!status.ok()) coordinator.Fail(status);
      });
  LocalLink link(&local, options.log);
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  *enlist.mutable_local_address() = MakeLocalAddress();
  TRIBUTARY_RETURN_IF_ERROR(coordinator.AddServer(enlist, &link));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S1"));
  std::string address;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Listener> listener,
      Listen(run->listen, enlist.local_address(),
             {&service, &coordinator_service}, &address));
  if (run->listen.on_listening) {
    options.log->Info("coordinator listens on %s", address);
  }
  listener->SetReady(true);
  run->listen.listen =
      absl::StrCat(HostOf(options.listen), ":", listener->port());
  run->listen.on_listening = nullptr;

  AttemptEnd end;
  end.ending = FollowAttempt(&coordinator, *output, attempt, run->shutdown);
  listener->SetReady(false);
  end.status = coordinator.status();
  end.checkpoint_step = coordinator.GetStatus().checkpoint_step();
  const bool goes_back = end.ending == Coordinator::Ending::kGoesBack ||
                         end.ending == Coordinator::Ending::kDamaged;
  if (goes_back) {
    run->expected_workers = std::clamp(coordinator.workers_at_ending(), 1,
                                       options.expected_workers);
    run->start_timeout = std::min(options.start_timeout, kRecoveryTimeout);
  } else {
    end.status = WriteResults(&coordinator, attempt,
                              end.ending == Coordinator::Ending::kTrained,
                              local, options, output);
  }
  listener->ShutDown(goes_back ? kCutTimeout : kDrainTimeout);
  coordinator_service.AwaitIdle();
  service.AwaitIdle();
  return end;
}

absl::Status RunCoordinator(const ServerOptions& options, Shutdown* shutdown) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<RunOutput> output,
      RunOutput::Create(options.output_directory, options.job, options.log));
  ResumeChooser chooser(options);
  CoordinatorRun run;
  run.options = &options;
  run.shutdown = shutdown;
  run.output = output.get();
  run.listen = options;
  run.expected_workers = options.expected_workers;
  run.start_timeout = options.start_timeout;
  Backoff backoff;
  for (int64_t attempt = 0;;) {
    // A disk that fails later costs no training.
    const bool first = attempt == 0;
    if (!first) {
      // A newer attempt is another coordinator's: it must not be overtaken in
      // turn.
      const absl::Status current = output->CheckAttempt(attempt);
      if (absl::IsFailedPrecondition(current)) return current;
    }
    absl::StatusOr<int64_t> next = output->NextAttempt();
    if (!next.ok() && first) return next.status();
    if (!next.ok()) {
      options.log->Warning("the number of this attempt is not kept: %s",
                           std::string(next.status().message()));
    }
    attempt = next.value_or(attempt + 1);
    TRIBUTARY_ASSIGN_OR_RETURN(std::optional<ResumePoint> resume,
                               chooser.Choose());
    int64_t step = 0;
    int64_t evaluated = 0;
    std::string from;
    if (resume.has_value()) {
      step = resume->manifest.step();
      evaluated = resume->manifest.job_state().evaluation_step();
      from = resume->folder;
      options.log->Info("attempt %d: goes on from step %d, %s", attempt, step,
                        from);
    }
    const absl::Status rewound = output->RewindMetrics(step, evaluated);
    if (!rewound.ok() && first) return rewound;
    if (!rewound.ok()) {
      options.log->Warning(
          "metrics.jsonl keeps lines of steps that are "
          "computed again: %s",
          std::string(rewound.message()));
    }
    TRIBUTARY_ASSIGN_OR_RETURN(const AttemptEnd end,
                               RunAttempt(&run, attempt, std::move(resume)));
    switch (end.ending) {
      case Coordinator::Ending::kDamaged:
        options.log->Error("%s; going back to the checkpoint before it",
                           std::string(end.status.message()));
        chooser.SetDamaged(from);
        break;
      case Coordinator::Ending::kGoesBack:
        options.log->Warning("%s; waiting for it to come back",
                             std::string(end.status.message()));
        break;
      case Coordinator::Ending::kDrained:
        return absl::CancelledError(
            end.checkpoint_step < 0
                ? std::string("stopped by request")
                : absl::StrCat("stopped by request at step ",
                               end.checkpoint_step,
                               "; --resume goes on from there"));
      default:
        return end.status;
    }
    chooser.UseOwn();
    if (!backoff.Wait(shutdown)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

// One attempt of the job. OK when the job is done; `*enlisted`: the coordinator
// was there; `*over`: there is nothing to come back to.
absl::Status RunShardAttempt(const ServerOptions& options, Shutdown* shutdown,
                             absl::Duration connect_timeout, bool* enlisted,
                             bool* over) {
  ParameterServerService service(options.shard);
  std::shared_ptr<Enlistment> enlistment;
  LocalServer local(
      options.shard, options.threads, &service,
      [&enlistment](const ServerReport& report) { enlistment->Send(report); });
  enlistment = std::make_shared<Enlistment>([&](const ServerOrder& order) {
    TRIBUTARY_RETURN_IF_ERROR(local.Handle(order));
    if (order.has_finish()) {
      ServerReport report;
      *report.mutable_farewell()->mutable_statistics() = local.Statistics();
      enlistment->Send(report);
      enlistment->HalfClose();
    }
    return absl::OkStatus();
  });
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S1"));
  enlist.set_shard(options.shard);
  *enlist.mutable_local_address() = MakeLocalAddress();
  std::string address;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Listener> listener,
      Listen(options, enlist.local_address(), {&service}, &address));
  enlist.set_address(address);
  options.log->Info("server %d listens on %s", options.shard, address);
  const std::shared_ptr<grpc::Channel> channel =
      CreateChannel(options.coordinator, options.security);
  const absl::Status connected =
      AwaitConnected(channel.get(), options.coordinator, options.security,
                     absl::Now() + connect_timeout,
                     [shutdown] { return shutdown->requested(); });
  if (absl::IsFailedPrecondition(connected)) return connected;
  if (!connected.ok()) {
    if (shutdown->requested()) {
      return absl::CancelledError("stopped by request");
    }
    return absl::UnavailableError(absl::StrCat(
        "no coordinator at ", options.coordinator, " within ",
        absl::FormatDuration(connect_timeout),
        ": start `tributary server` with --shard 0 there, or correct "
        "--coordinator"));
  }
  const std::unique_ptr<Rendezvous::Stub> stub = Rendezvous::NewStub(channel);
  enlistment->Begin(stub.get(), enlist);
  *enlisted = true;
  listener->SetReady(true);
  const Pulse pulse(kServerHeartbeat, [&] {
    ServerReport report;
    ParameterStore* const store = local.store();
    report.mutable_heartbeat()->set_version(
        store == nullptr ? -1 : store->CompleteVersion());
    enlistment->Send(report);
  });
  shutdown->OnRequest([weak = std::weak_ptr<Enlistment>(enlistment)] {
    if (const auto alive = weak.lock()) alive->Cancel();
  });
  const grpc::Status ended = enlistment->AwaitDone();
  listener->ShutDown(enlistment->finished() ? kDrainTimeout : kCutTimeout);
  service.AwaitIdle();
  if (enlistment->stopped()) {
    *over = true;
    return absl::CancelledError("the job was stopped");
  }
  if (enlistment->finished()) return absl::OkStatus();
  if (shutdown->requested()) return absl::CancelledError("stopped by request");
  if (ended.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the coordinator at ", options.coordinator,
                     " ended the connection before the job was done"));
  }
  return FromGrpc(ended, absl::StrCat("coordinator ", options.coordinator));
}

absl::Status RunShard(const ServerOptions& options, Shutdown* shutdown) {
  Backoff backoff;
  bool enlisted = false;
  bool over = false;
  absl::Time last_seen = absl::Now();
  ServerOptions attempt = options;
  while (true) {
    const absl::Status status =
        RunShardAttempt(attempt, shutdown,
                        enlisted ? options.reconnect_timeout : kConnectTimeout,
                        &enlisted, &over);
    if (status.ok() || over || shutdown->requested()) return status;
    // Right after it was cut off, the coordinator may still take it for there.
    const bool in_the_way = absl::IsAlreadyExists(status);
    if (!IsTransient(status) && !in_the_way) return status;
    if (!in_the_way) last_seen = absl::Now();
    if (in_the_way && absl::Now() - last_seen > kOldSelfTimeout) return status;
    if (!enlisted) return status;
    attempt.on_listening = nullptr;
    options.log->Warning("%s; enlisting again", std::string(status.message()));
    if (!backoff.Wait(shutdown)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

}  // namespace

absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown) {
  return options.shard == 0 ? RunCoordinator(options, shutdown)
                            : RunShard(options, shutdown);
}

}  // namespace tributary
