#include "tests/simulation/processes/replicas.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace tributary::simulation {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

// Returns N for "server-N", and 0 for the empty address of shard 0.
int ShardAt(absl::string_view address) {
  (void)absl::ConsumePrefix(&address, "server-");
  return std::atoi(std::string(address).c_str());
}

}  // namespace

class Replicas::Incoming {
 public:
  Incoming(Replicas* owner, std::shared_ptr<Link> link)
      : owner_(owner), link_(std::move(link)) {
    Link::Handlers handlers;
    handlers.message = [this](const Link::Message& message) {
      const absl::Status status =
          Handle(static_cast<const JournalMessage&>(message));
      if (!status.ok()) link_->Close(status);
    };
    handlers.half_closed = [this] { link_->Close(absl::OkStatus()); };
    link_->SetHandlers(Link::kServer, std::move(handlers));
  }
  ~Incoming() { link_->SetHandlers(Link::kServer, {}); }

 private:
  absl::Status Handle(const JournalMessage& message) {
    ReplicaStore* const memory = owner_->memory_;
    if (message.has_hello()) {
      const JournalHello& hello = message.hello();
      TRIBUTARY_RETURN_IF_ERROR(memory->CheckScope(hello.scope()));
      if (hello.attempt() != owner_->attempt_) {
        return absl::AbortedError("another attempt");
      }
      from_ = hello.shard();
      return absl::OkStatus();
    }
    const JournalPart& part = message.part();
    TRIBUTARY_ASSIGN_OR_RETURN(const ReplicaStore::CopyShape shape,
                               memory->ShapeOf(from_, part.chunk()));
    BufferPool pool(shape.elements);
    Buffer values = pool.Take();
    std::memcpy(values.get(), part.payload().data(), part.payload().size());
    if (part.array() == 0) {
      copy_ = Snapshot::Chunk();
      copy_.number = part.chunk();
      copy_.elements = shape.elements;
      copy_.values = std::move(values);
    } else {
      copy_.slots.push_back(std::move(values));
    }
    if (part.array() + 1 < shape.arrays) return absl::OkStatus();
    TRIBUTARY_RETURN_IF_ERROR(
        memory->Add(from_, part.version(), std::move(copy_)));
    JournalAnswer answer;
    answer.set_kept(++kept_);
    link_->Send(Link::kServer, answer);
    return absl::OkStatus();
  }

  Replicas* const owner_;
  const std::shared_ptr<Link> link_;
  int from_ = -1;
  int64_t kept_ = 0;
  Snapshot::Chunk copy_;
};

class Replicas::Outgoing final : public ReplicaStream {
 public:
  Outgoing(std::function<void(const absl::Status&)> lost)
      : state_(std::make_shared<State>()) {
    state_->lost = std::move(lost);
  }

  void Begin(World* world, const std::shared_ptr<Life>& scope, int shard,
             const JournalHello& hello) {
    JournalMessage message;
    *message.mutable_hello() = hello;
    state_->Send(message);
    world->Connect(
        scope, [world, shard] { return world->servers[shard]; },
        Service::kReplica, world->loop.now() + kConnectTimeout,
        [state = state_](absl::StatusOr<std::shared_ptr<Link>> link) {
          state->OnConnected(std::move(link));
        });
  }

  void Send(int64_t version, const Snapshot::Chunk& copy,
            std::function<void()> kept) override {
    state_->waiting.push_back(std::move(kept));
    for (size_t array = 0; array <= copy.slots.size(); ++array) {
      const Buffer& values = array == 0 ? copy.values : copy.slots[array - 1];
      JournalMessage message;
      message.mutable_part()->set_version(version);
      message.mutable_part()->set_chunk(copy.number);
      message.mutable_part()->set_array(static_cast<int>(array));
      message.mutable_part()->set_payload(values.get(),
                                          copy.elements * sizeof(float));
      state_->Send(message);
    }
  }

  void End() override {
    state_->ended = true;
    if (state_->link == nullptr) return;
    state_->link->SetHandlers(Link::kClient, {});
    state_->link->Cancel();
  }

 private:
  // Shared, because connecting may take longer than the stream exists.
  struct State : std::enable_shared_from_this<State> {
    void Send(const JournalMessage& message) {
      if (link != nullptr) {
        link->Send(Link::kClient, message);
      } else {
        early.push_back(message);
      }
    }
    void OnConnected(absl::StatusOr<std::shared_ptr<Link>> connected) {
      if (ended) {
        if (connected.ok()) (*connected)->Cancel();
        return;
      }
      if (!connected.ok()) {
        lost(connected.status());
        return;
      }
      link = *std::move(connected);
      Link::Handlers handlers;
      handlers.message = [this](const Link::Message& message) {
        const auto self = shared_from_this();
        const auto& answer = static_cast<const JournalAnswer&>(message);
        for (; told < answer.kept() && !waiting.empty(); ++told) {
          const std::function<void()> kept = std::move(waiting.front());
          waiting.pop_front();
          kept();
        }
      };
      handlers.gone = [this](const absl::Status& status) {
        const auto self = shared_from_this();
        if (!ended) lost(status);
      };
      link->SetHandlers(Link::kClient, std::move(handlers));
      for (const JournalMessage& message : early) {
        link->Send(Link::kClient, message);
      }
      early.clear();
    }

    std::function<void(const absl::Status&)> lost;
    std::shared_ptr<Link> link;
    std::vector<JournalMessage> early;
    std::deque<std::function<void()>> waiting;
    int64_t told = 0;
    bool ended = false;
  };

  const std::shared_ptr<State> state_;
};

Replicas::Replicas(World* world, int shard, std::shared_ptr<Life> scope,
                   ReplicaStore* memory)
    : world_(world), shard_(shard), scope_(std::move(scope)), memory_(memory) {}

Replicas::~Replicas() = default;

void Replicas::Accept(const std::shared_ptr<Link>& link) {
  incoming_.push_back(std::make_unique<Incoming>(this, link));
}

std::unique_ptr<ReplicaStream> Replicas::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  auto stream = std::make_unique<Outgoing>(std::move(lost));
  stream->Begin(world_, scope_, ShardAt(address), hello);
  return stream;
}

absl::Status Replicas::Fetch(const std::string& address,
                             const ReadJournalRequest& request,
                             Snapshot* snapshot) {
  const Process* const from = world_->servers[ShardAt(address)];
  const absl::Time now = world_->loop.now();
  if (from->listener() == nullptr || from->listener()->gone() ||
      from->life()->paused_until > now ||
      world_->network.BlockedUntil(scope_->process, from->number()) > now ||
      world_->network.BlockedUntil(from->number(), scope_->process) > now) {
    return absl::UnavailableError("the holder is not to be reached");
  }
  const ReplicaStore* const memory = from->replicas();
  TRIBUTARY_RETURN_IF_ERROR(memory->CheckScope(request.scope()));
  TRIBUTARY_ASSIGN_OR_RETURN(const Snapshot held,
                             memory->Find(shard_, request.version()));
  CopySnapshot(held, snapshot);
  return absl::OkStatus();
}

}  // namespace tributary::simulation
