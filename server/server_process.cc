#include "server/server_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/log.h"
#include "common/shared_memory.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/coordinator.h"
#include "server/coordinator_service.h"
#include "server/enlistment.h"
#include "server/local_server.h"
#include "server/parameter_server_service.h"
#include "server/run_output.h"

namespace tributary {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// For streams that were told to end; after it they are cut.
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
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

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;
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

absl::StatusOr<Listener> Listen(const ServerOptions& options,
                                const LocalAddress& local,
                                const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                           &port);
  builder.AddListeningPort(local.address(), grpc::InsecureServerCredentials());
  for (grpc::Service* service : services) builder.RegisterService(service);
  Listener listener;
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.listen,
        ": the address is in use or not this machine's; choose another with "
        "--listen HOST:PORT (port 0: any free one)"));
  }
  listener.address = absl::StrCat(HostOf(options.listen), ":", port);
  if (!options.advertise.empty()) {
    listener.address = options.advertise.find(':') == std::string::npos
                           ? absl::StrCat(options.advertise, ":", port)
                           : options.advertise;
  }
  if (options.on_listening) options.on_listening(listener.address);
  return listener;
}

void ShutDown(grpc::Server* server) {
  server->Shutdown(absl::ToChronoTime(absl::Now() + kDrainTimeout));
}

// Reads a remote server's chunks at `version` into the arena.
absl::Status ReadRemote(const std::string& address, int64_t version,
                        const ArenaLayout& layout, float* arena) {
  std::unique_ptr<ParameterServer::Stub> stub =
      ParameterServer::NewStub(CreateChannel(address));
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
                       float* arena) {
  for (const int chunk : store->chunk_numbers()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const WeightsVersion weights,
                               store->Read(chunk, version));
    std::memcpy(arena + store->layout().ChunkBegin(chunk), weights.values.data,
                weights.values.bytes);
  }
  for (size_t shard = 1; shard < addresses.size(); ++shard) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadRemote(addresses[shard], version, store->layout(), arena));
  }
  return absl::OkStatus();
}

// ReadModel, once the servers have applied the last step. Every worker that
// says farewell has seen that; without one (the last was lost after its last
// push) it is a matter of milliseconds.
absl::Status ReadFinalModel(ParameterStore* store, int64_t version,
                            const std::vector<std::string>& addresses,
                            float* arena) {
  const absl::Time deadline = absl::Now() + kDrainTimeout;
  absl::Status status;
  do {
    status = ReadModel(store, version, addresses, arena);
    if (!absl::IsFailedPrecondition(status)) return status;
    absl::SleepFor(kTick);
  } while (absl::Now() < deadline);
  return status;
}

// Runs the job to its end; the coordinator's state tells how it went.
void FollowJob(Coordinator* coordinator, Shutdown* shutdown) {
  while (!coordinator->AwaitTrained(kTick)) {
    coordinator->Tick();
    if (shutdown->requested()) {
      coordinator->Fail(absl::CancelledError("stopped by request"));
    }
  }
}

absl::Status WriteResults(Coordinator* coordinator, const LocalServer& local,
                          RunOutput* output, Logger* log) {
  absl::Status status = coordinator->status();
  std::string digest;
  if (status.ok()) {
    ParameterStore* const store = local.store();
    BufferPool arenas(store->layout().arena_elements());
    const Buffer arena = arenas.Take();
    status = ReadFinalModel(store, coordinator->final_version(),
                            coordinator->server_addresses(), arena.get());
    if (status.ok()) {
      absl::StatusOr<std::string> written =
          output->WriteModel(store->layout(), arena.get());
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
    log->Warning("some servers did not say goodbye");
  }
  nlohmann::ordered_json summary = coordinator->Summary();
  if (!digest.empty()) summary["weights_sha256"] = digest;
  const absl::Status written = output->WriteSummary(summary);
  return status.ok() ? written : status;
}

absl::Status RunCoordinator(const ServerOptions& options, Shutdown* shutdown) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<RunOutput> output,
      RunOutput::Create(options.output_directory, options.job, options.log));
  Coordinator::Options job;
  job.job = options.job;
  job.servers = options.servers;
  job.expected_workers = options.expected_workers;
  job.start_timeout = options.start_timeout;
  job.lease = options.lease;
  job.no_worker_timeout = options.no_worker_timeout;
  Coordinator coordinator(job, &absl::Now,
                          [&output](const nlohmann::ordered_json& line) {
                            output->AppendMetrics(line);
                          });
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
  TRIBUTARY_ASSIGN_OR_RETURN(Listener listener,
                             Listen(options, enlist.local_address(),
                                    {&service, &coordinator_service}));
  options.log->Info("coordinator listens on %s", listener.address);
  FollowJob(&coordinator, shutdown);
  const absl::Status status =
      WriteResults(&coordinator, local, output.get(), options.log);
  ShutDown(listener.server.get());
  coordinator_service.AwaitIdle();
  service.AwaitIdle();
  return status;
}

absl::Status RunShard(const ServerOptions& options, Shutdown* shutdown) {
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
  enlist.set_shard(options.shard);
  *enlist.mutable_local_address() = MakeLocalAddress();
  TRIBUTARY_ASSIGN_OR_RETURN(
      Listener listener, Listen(options, enlist.local_address(), {&service}));
  enlist.set_address(listener.address);
  options.log->Info("server %d listens on %s", options.shard, listener.address);
  const std::shared_ptr<grpc::Channel> channel =
      CreateChannel(options.coordinator);
  if (!AwaitConnected(channel.get(), absl::Now() + kConnectTimeout,
                      [shutdown] { return shutdown->requested(); })) {
    if (shutdown->requested()) {
      return absl::CancelledError("stopped by request");
    }
    return absl::UnavailableError(absl::StrCat(
        "no coordinator at ", options.coordinator, " within ",
        absl::FormatDuration(kConnectTimeout),
        ": start `tributary server` with --shard 0 there, or correct "
        "--coordinator"));
  }
  const std::unique_ptr<Rendezvous::Stub> stub = Rendezvous::NewStub(channel);
  enlistment->Begin(stub.get(), enlist);
  shutdown->OnRequest([weak = std::weak_ptr<Enlistment>(enlistment)] {
    if (const auto alive = weak.lock()) alive->Cancel();
  });
  const grpc::Status ended = enlistment->AwaitDone();
  ShutDown(listener.server.get());
  service.AwaitIdle();
  if (enlistment->finished()) return absl::OkStatus();
  if (shutdown->requested()) return absl::CancelledError("stopped by request");
  if (ended.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the coordinator at ", options.coordinator,
                     " ended the connection before the job was done"));
  }
  return FromGrpc(ended, absl::StrCat("coordinator ", options.coordinator));
}

}  // namespace

absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown) {
  return options.shard == 0 ? RunCoordinator(options, shutdown)
                            : RunShard(options, shutdown);
}

}  // namespace tributary
