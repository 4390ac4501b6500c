// The coordinator's side of simulated Membership and Enlistment calls, in place
// of CoordinatorService.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_STREAMS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_STREAMS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/coordinator/coordinator.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// The stream of a worker. Refusing a correct worker's report is a violation.
class WorkerStream final : public WorkerLink {
 public:
  WorkerStream(World* world, Coordinator* coordinator,
               std::shared_ptr<Link> link)
      : world_(world), coordinator_(coordinator), link_(std::move(link)) {
    Link::Handlers handlers;
    handlers.message = [this](const Link::Message& message) {
      const absl::Status status =
          Handle(static_cast<const WorkerReport&>(message));
      if (!status.ok()) Close(status);
    };
    handlers.half_closed = [this] {
      if (incarnation_ != 0) coordinator_->WorkerGone(incarnation_);
      Close(absl::OkStatus());
    };
    handlers.gone = [this](const absl::Status&) {
      if (incarnation_ != 0) coordinator_->WorkerGone(incarnation_);
    };
    link_->SetHandlers(Link::kServer, std::move(handlers));
  }
  ~WorkerStream() override { link_->SetHandlers(Link::kServer, {}); }

  void Send(const CoordinatorOrder& order) override {
    if (!closed_) link_->Send(Link::kServer, order);
  }
  void Close(const absl::Status& status) override {
    if (!std::exchange(closed_, true)) link_->Close(status);
  }

 private:
  absl::Status Handle(const WorkerReport& report) {
    if (incarnation_ != 0) {
      const absl::Status status =
          coordinator_->OnWorkerReport(incarnation_, report);
      if (!status.ok() && !absl::IsAborted(status)) {
        world_->Violate(absl::StrCat("the coordinator refuses a worker's ",
                                     report.ShortDebugString().substr(0, 60),
                                     ": ", status.ToString()));
      }
      return status;
    }
    TRIBUTARY_ASSIGN_OR_RETURN(incarnation_,
                               coordinator_->AddWorker(report.join(), this));
    return absl::OkStatus();
  }

  World* const world_;
  Coordinator* const coordinator_;
  const std::shared_ptr<Link> link_;
  bool closed_ = false;
  int64_t incarnation_ = 0;
};

// The stream of a server. Refusing its report is a violation.
class ServerStream final : public ServerLink {
 public:
  ServerStream(World* world, Coordinator* coordinator,
               std::shared_ptr<Link> link)
      : world_(world), coordinator_(coordinator), link_(std::move(link)) {
    Link::Handlers handlers;
    handlers.message = [this](const Link::Message& message) {
      const absl::Status status =
          Handle(static_cast<const ServerReport&>(message));
      if (!status.ok()) Close(status);
    };
    handlers.half_closed = [this] {
      if (shard_ >= 0) coordinator_->ServerGone(shard_);
      Close(absl::OkStatus());
    };
    handlers.gone = [this](const absl::Status&) {
      if (shard_ >= 0) coordinator_->ServerGone(shard_);
    };
    link_->SetHandlers(Link::kServer, std::move(handlers));
  }
  ~ServerStream() override { link_->SetHandlers(Link::kServer, {}); }

  void Send(const ServerOrder& order) override {
    if (!closed_) link_->Send(Link::kServer, order);
  }
  void Close(const absl::Status& status) override {
    if (!std::exchange(closed_, true)) link_->Close(status);
  }

 private:
  absl::Status Handle(const ServerReport& report) {
    if (shard_ >= 0) {
      const absl::Status status = coordinator_->OnServerReport(shard_, report);
      if (!status.ok()) {
        world_->Violate(absl::StrCat("the coordinator refuses server ", shard_,
                                     "'s report: ", status.ToString()));
      }
      return status;
    }
    const absl::Status status = coordinator_->AddServer(report.enlist(), this);
    if (status.ok()) shard_ = report.enlist().shard();
    return status;
  }

  World* const world_;
  Coordinator* const coordinator_;
  const std::shared_ptr<Link> link_;
  bool closed_ = false;
  int shard_ = -1;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_COORDINATOR_STREAMS_H_
