#include "server/local_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parameter_table.h"
#include "common/process.h"
#include "common/rounds.h"
#include "common/status_macros.h"

namespace tributary {

LocalServer::LocalServer(int shard, int threads,
                         ParameterServerService* service,
                         std::function<void(const ServerReport&)> report)
    : shard_(shard),
      service_(service),
      report_(std::move(report)),
      pool_(std::make_unique<ThreadPool>(threads)) {}

LocalServer::~LocalServer() { pool_.reset(); }

ParameterStore* LocalServer::store() const {
  absl::MutexLock lock(&mu_);
  return store_.get();
}

absl::Status LocalServer::Handle(const ServerOrder& order) {
  switch (order.order_case()) {
    case ServerOrder::kConfigure:
      // On the pool, because the coordinator gives its own server orders with
      // its lock held.
      pool_->Run([this, configure = order.configure()] {
        const absl::Status status = OnConfigure(configure);
        ServerReport report;
        if (status.ok()) {
          report.mutable_configured();
        } else {
          report.mutable_failure()->set_message(std::string(status.message()));
          report.mutable_failure()->set_exit_code(1);
        }
        report_(report);
      });
      return absl::OkStatus();
    case ServerOrder::kNorm: {
      ParameterStore* const target = store();
      if (target == nullptr) {
        return absl::FailedPreconditionError("a norm before the table");
      }
      target->SetGradientNorm(order.norm().step(), order.norm().norm());
      return absl::OkStatus();
    }
    case ServerOrder::kFinish:
      return absl::OkStatus();
    case ServerOrder::ORDER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected order to a server");
}

absl::Status LocalServer::OnConfigure(const Configure& configure) {
  if (store() != nullptr) {
    return absl::FailedPreconditionError("configured twice");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(configure.table()));
  ParameterStore::Options options;
  options.job = JobOfRounds(configure.job());
  options.steps = Rounds(configure.job(), configure.steps()).count();
  options.shard = shard_;
  options.servers = configure.servers();
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterStore> store,
      ParameterStore::Create(options, std::move(layout), pool_.get(),
                             [this](const StepSums& sums) {
                               ServerReport report;
                               *report.mutable_sums() = sums;
                               service_->arrivals()->Take(
                                   sums.step(), report.mutable_sums());
                               report_(report);
                             }));
  absl::MutexLock lock(&mu_);
  store_ = std::move(store);
  service_->Serve(store_.get());
  return absl::OkStatus();
}

ProcessStatistics LocalServer::Statistics() const {
  ProcessStatistics statistics;
  statistics.set_bytes_sent(service_->counters().bytes_sent);
  statistics.set_bytes_received(service_->counters().bytes_received);
  statistics.set_peak_memory_bytes(PeakMemoryBytes());
  statistics.set_cpu_seconds(CpuSeconds());
  return statistics;
}

}  // namespace tributary
