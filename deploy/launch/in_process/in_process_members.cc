#include "deploy/launch/in_process/in_process_members.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/process/server_network.h"
#include "server/process/server_process.h"
#include "worker/process/worker_network.h"

namespace tributary {
namespace {

// What an all-reduce and a pipeline take for this machine's address. Nothing
// listens there.
constexpr char kHost[] = "127.0.0.1";

absl::StatusOr<std::unique_ptr<Logger>> MakeLog(LogOptions options,
                                                const ThreadContext& context) {
  options.on_warning = context.warn;
  return Logger::Create(options);
}

absl::Status LogEnd(const absl::Status& status, Logger* log) {
  log->Write(LogLevel::kInfo, status.ok() ? "done"
                              : absl::IsCancelled(status)
                                  ? status.message()
                                  : absl::StrCat("failed: ", status.message()));
  return status;
}

}  // namespace

ProcessSpec InProcessServer(InProcessNetwork* network, ServerOptions options,
                            LogOptions log) {
  ProcessSpec spec;
  spec.name = absl::StrCat("server-", options.shard);
  spec.log_path = log.file;
  spec.body = [network, options = std::move(options),
               log = std::move(log)](const ThreadContext& context) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Logger> logger,
                               MakeLog(log, context));
    const std::unique_ptr<ServerNetwork> own = network->MakeServerNetwork(
        options.shard, logger.get(), options.on_ready);
    ServerOptions server = options;
    server.network = own.get();
    server.coordinator = InProcessNetwork::kCoordinator;
    server.log = logger.get();
    server.on_listening = context.ready;
    return LogEnd(RunServer(server, context.shutdown), logger.get());
  };
  return spec;
}

ProcessSpec InProcessWorker(InProcessNetwork* network, WorkerOptions options,
                            LogOptions log, WorkerBody run) {
  ProcessSpec spec;
  spec.name = absl::StrCat("worker-", options.rank);
  spec.log_path = log.file;
  spec.body = [network, options = std::move(options), log = std::move(log),
               run = std::move(run)](const ThreadContext& context) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Logger> logger,
                               MakeLog(log, context));
    const std::unique_ptr<WorkerNetwork> own = network->MakeWorkerNetwork();
    WorkerOptions worker = options;
    worker.network = own.get();
    worker.coordinator = InProcessNetwork::kCoordinator;
    worker.host = kHost;
    worker.log = logger.get();
    return LogEnd(run(worker, context.shutdown), logger.get());
  };
  return spec;
}

}  // namespace tributary
