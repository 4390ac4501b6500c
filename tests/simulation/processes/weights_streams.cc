#include "tests/simulation/processes/weights_streams.h"

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "server/membership/peer_checks.h"

namespace tributary::simulation {
namespace {

// As in ParameterServerService: older versions first, and within a version the
// first layers first.
int64_t WritePriority(int64_t version, int chunk) {
  return ((version + 1) << 24 | chunk) << 1;
}

}  // namespace

class WeightsStreams::Stream final : public WeightsSubscriber {
 public:
  Stream(WeightsStreams* owner, int64_t number, std::shared_ptr<Link> link)
      : owner_(owner), number_(number), link_(std::move(link)) {
    Link::Handlers handlers;
    handlers.message = [this](const Link::Message& message) {
      OnMessage(static_cast<const WorkerMessage&>(message));
    };
    handlers.half_closed = [this] { Close(absl::OkStatus()); };
    handlers.gone = [this](const absl::Status&) {
      owner_->streams_.erase(number_);
    };
    link_->SetHandlers(Link::kServer, std::move(handlers));
    if (store() == nullptr) {
      Close(absl::UnavailableError("this server does not know the model yet"));
    }
  }

  ~Stream() override {
    link_->SetHandlers(Link::kServer, {});
    if (subscribed_) store()->Unsubscribe(this);
  }

  void OnWeights(const WeightsVersion& weights) override {
    const int64_t useless = weights.version - store()->useful_versions();
    if (useless >= 0) queue_.erase(WritePriority(useless, weights.chunk));
    ServerMessage message;
    message.mutable_weights()->set_version(weights.version);
    message.mutable_weights()->set_chunk(weights.chunk);
    message.mutable_weights()->set_encoding(weights.values.encoding);
    message.mutable_weights()->set_payload(
        static_cast<const char*>(weights.values.data), weights.values.bytes);
    Queue(WritePriority(weights.version, weights.chunk), std::move(message));
  }

  void OnOutcome(const Outcome& outcome, int64_t version) override {
    ServerMessage message;
    *message.mutable_outcome() = outcome;
    Queue(WritePriority(version, outcome.chunk()) + 1, std::move(message));
  }

 private:
  ParameterStore* store() const { return owner_->store_; }

  void Queue(int64_t priority, ServerMessage message) {
    if (closed_) return;
    queue_.emplace(priority, std::move(message));
    if (std::exchange(flushing_, true)) return;
    World* const world = owner_->world_;
    // If a worker reads slowly, messages wait here.
    const absl::Duration wait = world->random.Between(
        absl::Microseconds(1), world->random.Chance(0.05)
                                   ? absl::Milliseconds(100)
                                   : absl::Microseconds(300));
    world->loop.After(wait, owner_->scope_, "-flush",
                      [owner = owner_, number = number_] {
                        const auto found = owner->streams_.find(number);
                        if (found != owner->streams_.end()) {
                          found->second->Flush();
                        }
                      });
  }

  void Flush() {
    flushing_ = false;
    for (const auto& [priority, message] : queue_) {
      link_->Send(Link::kServer, message);
    }
    queue_.clear();
  }

  void Close(const absl::Status& status) {
    if (std::exchange(closed_, true)) return;
    Flush();
    link_->Close(status);
  }

  void OnMessage(const WorkerMessage& message) {
    if (store() == nullptr) return;
    const absl::Status status = Handle(message);
    if (status.ok()) return;
    World* const world = owner_->world_;
    // Simulated workers send correct messages, so refusing one is a violation.
    // After a refusal no message is correct.
    if (!closed_ && !absl::IsAborted(status) && !absl::IsUnavailable(status)) {
      world->Violate(absl::StrCat("server ", owner_->shard_,
                                  " refuses a worker: ", status.ToString()));
    }
    Close(status);
  }

  absl::Status Handle(const WorkerMessage& message) {
    if (message.has_hello()) return OnHello(message.hello());
    if (!welcomed_) {
      return absl::FailedPreconditionError("the first message must be Hello");
    }
    if (message.has_initial()) {
      const Initial& initial = message.initial();
      TRIBUTARY_RETURN_IF_ERROR(store()->CheckChunk(initial.chunk()));
      Buffer values = store()->TakeBuffer();
      std::memcpy(values.get(), initial.payload().data(),
                  initial.payload().size());
      return store()->AddInitial(initial.chunk(), std::move(values));
    }
    const Contribution& c = message.contribution();
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("S4"));
    owner_->arrivals_.Add(c.step(), incarnation_);
    const size_t count = c.payload().size() / sizeof(float);
    std::shared_ptr<float[]> values(new float[count]);
    std::memcpy(values.get(), c.payload().data(), c.payload().size());
    NodeSum sum;
    sum.step = c.step();
    sum.node = c.node();
    sum.gradient = std::make_shared<GradientInMemory>(values.get(), values);
    sum.sample_count = c.weight();
    sum.loss_sum = c.loss_sum();
    sum.contributor = incarnation_;
    sum.base_version = c.base_version();
    sum.gradient_norm = c.gradient_norm();
    sum.sender = id();
    return store()->AddContribution(c.chunk(), std::move(sum));
  }

  absl::Status OnHello(const Hello& hello) {
    TRIBUTARY_RETURN_IF_ERROR(CheckJob(hello.job_id(), owner_->job_id_));
    if (hello.signature() != store()->layout().signature()) {
      return absl::FailedPreconditionError("another model");
    }
    if (hello.attempt() != owner_->attempt_) {
      return absl::AbortedError(
          absl::StrCat("the worker belongs to attempt ", hello.attempt(),
                       ", the server to ", owner_->attempt_));
    }
    welcomed_ = true;
    incarnation_ = hello.incarnation();
    ServerMessage welcome;
    welcome.mutable_welcome()->set_shard(owner_->shard_);
    Queue(/*priority=*/-1, std::move(welcome));
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("S3"));
    subscribed_ = true;
    store()->Subscribe(this, /*in_memory=*/false);
    return absl::OkStatus();
  }

  WeightsStreams* const owner_;
  const int64_t number_;
  const std::shared_ptr<Link> link_;
  std::multimap<int64_t, ServerMessage> queue_;
  bool flushing_ = false;
  bool closed_ = false;
  bool welcomed_ = false;
  bool subscribed_ = false;
  int64_t incarnation_ = 0;
};

WeightsStreams::WeightsStreams(World* world, int shard,
                               std::shared_ptr<Life> scope)
    : world_(world),
      shard_(shard),
      scope_(std::move(scope)),
      arrivals_([world] { return world->loop.now(); }) {}

WeightsStreams::~WeightsStreams() = default;

void WeightsStreams::EndAll() { streams_.clear(); }

void WeightsStreams::Accept(const std::shared_ptr<Link>& link) {
  const int64_t number = next_++;
  streams_.emplace(number, std::make_unique<Stream>(this, number, link));
}

void WeightsStreams::Serve(ParameterStore* store, const std::string& job_id,
                           int64_t attempt) {
  store_ = store;
  job_id_ = job_id;
  attempt_ = attempt;
}

}  // namespace tributary::simulation
