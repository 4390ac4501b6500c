#include "tests/simulation/processes/shard_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/retry.h"
#include "common/transport/channel.h"

namespace tributary::simulation {
namespace {

// The same values as in server/process/shard_process.cc.
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
constexpr absl::Duration kCutTimeout = absl::Milliseconds(200);
constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
constexpr absl::Duration kReconnectTimeout = absl::Minutes(10);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(500);
constexpr absl::Duration kOldSelfTimeout = absl::Seconds(30);

}  // namespace

void ShardProcess::OnStart() {
  enlisted_ = false;
  replicas_ = std::make_unique<ReplicaStore>();
  wait_ = absl::ZeroDuration();
  last_seen_ = world_->loop.now();
  world_->loop.After(world_->network.Latency(), life(), "begin",
                     [this] { BeginAttempt(); });
}

void ShardProcess::OnCrash() {
  server_.reset();
  link_.reset();
  replicas_.reset();
}

void ShardProcess::BeginAttempt() {
  finished_ = stopped_ = false;
  attempt_began_ = world_->loop.now();
  server_ = std::make_unique<ServerAttempt>(
      world_, shard_, MakeScope("attempt"), replicas_.get(),
      [this](const ServerReport& report) {
        if (link_ != nullptr) link_->Send(Link::kClient, report);
      });
  listener_ = server_->scope;
  world_->Connect(
      server_->scope, [this] { return world_->servers[0]; },
      Service::kEnlistment,
      world_->loop.now() + (enlisted_ ? kReconnectTimeout : kConnectTimeout),
      [this](absl::StatusOr<std::shared_ptr<Link>> link) {
        if (!link.ok()) {
          OnGone(link.status());
          return;
        }
        enlisted_ = true;
        link_ = *link;
        Link::Handlers handlers;
        handlers.message = [this](const Link::Message& message) {
          OnOrder(static_cast<const ServerOrder&>(message));
        };
        handlers.gone = [this](const absl::Status& status) { OnGone(status); };
        link_->SetHandlers(Link::kClient, std::move(handlers));
        ServerReport report;
        report.mutable_enlist()->set_protocol_version(kProtocolVersion);
        report.mutable_enlist()->set_shard(shard_);
        report.mutable_enlist()->set_address(absl::StrCat("server-", shard_));
        if (auto holdings = replicas_->Holdings()) {
          *report.mutable_enlist()->mutable_journal() = *std::move(holdings);
        }
        link_->Send(Link::kClient, report);
        Beat();
      });
}

void ShardProcess::Accept(Service service, const std::shared_ptr<Link>& link) {
  if (service == Service::kReplica) {
    server_->replicas.Accept(link);
  } else {
    server_->streams.Accept(link);
  }
}

void ShardProcess::Beat() {
  world_->loop.After(kHeartbeat, server_->scope, "-beat", [this] {
    if (link_ == nullptr) return;
    ServerReport report;
    ParameterStore* const store = server_->local.store();
    report.mutable_heartbeat()->set_version(
        store == nullptr ? -1 : store->CompleteVersion());
    link_->Send(Link::kClient, report);
    Beat();
  });
}

void ShardProcess::OnOrder(const ServerOrder& order) {
  if (order.has_finish()) {
    finished_ = true;
    stopped_ = order.finish().stopped();
  }
  const absl::Status handled = server_->local.Handle(order);
  if (!handled.ok()) {
    world_->Violate(absl::StrCat(name(), ": ", handled.ToString()));
    link_->Cancel();
    OnGone(absl::CancelledError("cancelled"));
    return;
  }
  if (order.has_finish()) {
    ServerReport report;
    report.mutable_farewell();
    link_->Send(Link::kClient, report);
    link_->HalfClose();
  }
}

void ShardProcess::OnGone(const absl::Status& status) {
  link_.reset();
  if (finished_) {
    AwaitStreams(world_->loop.now() + kDrainTimeout);
    return;
  }
  // Deferred, because the link's handler must return first.
  world_->loop.After(
      world_->network.Latency(), server_->scope, "attempt over",
      [this, status] {
        const bool in_the_way = absl::IsAlreadyExists(status);
        EndAttempt(kCutTimeout);
        if (!in_the_way) last_seen_ = world_->loop.now();
        const bool too_long =
            in_the_way && world_->loop.now() - last_seen_ > kOldSelfTimeout;
        if ((!status.ok() && !IsTransient(status) && !in_the_way) || too_long ||
            !enlisted_) {
          Exit(status);
          return;
        }
        if (world_->loop.now() - attempt_began_ > absl::Seconds(10)) {
          wait_ = absl::ZeroDuration();
        }
        world_->loop.After(wait_, life(), "again", [this] { BeginAttempt(); });
        wait_ = std::min(absl::Seconds(1),
                         std::max(absl::Milliseconds(50), 2 * wait_));
      });
}

void ShardProcess::AwaitStreams(absl::Time deadline) {
  world_->loop.After(
      absl::Milliseconds(20), server_->scope, "-streams", [this, deadline] {
        if (world_->loop.now() < deadline && !server_->streams.idle()) {
          AwaitStreams(deadline);
          return;
        }
        EndAttempt(kCutTimeout);
        Exit(stopped_ ? absl::CancelledError("the job was stopped")
                      : absl::OkStatus());
      });
}

void ShardProcess::EndAttempt(absl::Duration notice) {
  listener_ = nullptr;
  const std::shared_ptr<Life> scope = server_->scope;
  EndLinks(scope.get(), notice);
  // Destroying the server runs the tasks that its executors have queued.
  server_.reset();
  EndScope(scope, notice);
}

std::string ShardProcess::State() const {
  if (!running()) return "not running";
  if (server_ == nullptr) return "between attempts";
  ParameterStore* const store = server_->local.store();
  return absl::StrCat(link_ == nullptr ? "not enlisted" : "enlisted",
                      ", version ",
                      store == nullptr ? -2 : store->CompleteVersion());
}

}  // namespace tributary::simulation
