// Streams of messages over simulated links.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_STREAMS_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_STREAMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/stream/message_stream.h"
#include "proto/journal.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/pipeline.pb.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// Returns the message's payload field; null if its kind has none.
std::string* PayloadField(WorkerMessage* message);
std::string* PayloadField(ServerMessage* message);
std::string* PayloadField(JournalMessage* message);
std::string* PayloadField(StageMessage* message);
inline std::string* PayloadField(google::protobuf::Message*) { return nullptr; }

// Returns a copy of `message` that contains the payload.
template <typename Message>
Message WithPayload(const Message& message, const OutgoingPayload& payload) {
  Message whole = message;
  std::string* const field = PayloadField(&whole);
  if (field != nullptr && payload.data != nullptr) {
    field->assign(static_cast<const char*>(payload.data),
                  static_cast<size_t>(payload.bytes));
  }
  return whole;
}

// Moves the payload out of `message`.
template <typename Message>
ReceivedPayload TakePayload(Message* message) {
  std::string* const field = PayloadField(message);
  if (field == nullptr) return ReceivedPayload();
  const auto owner = std::make_shared<std::string>(std::move(*field));
  field->clear();
  return ReceivedPayload(owner->data(), static_cast<int64_t>(owner->size()),
                         owner);
}

// The calls that a simulated process serves.
class ServedCalls {
 public:
  // Called with the status if a session refuses a message other than the first
  // one.
  using Refused = std::function<void(const absl::Status&)>;

  // The calls belong to `scope`.
  ServedCalls(World* world, std::shared_ptr<Life> scope)
      : world_(world), scope_(std::move(scope)) {}

  // Serves the call on `link` with make_session(stream).
  template <typename In, typename Out, typename MakeSession>
  void Accept(const std::shared_ptr<Link>& link,
              const MakeSession& make_session, Refused refused) {
    const int64_t number = next_++;
    auto call =
        std::make_unique<Call<In, Out>>(this, number, link, std::move(refused));
    auto* const raw = call.get();
    calls_.emplace(number, std::move(call));
    raw->Start(make_session(raw));
  }
  bool idle() const { return calls_.empty(); }
  // Ends all calls, as the end of the process or of its gRPC server does.
  void EndAll() {
    while (!calls_.empty()) End(calls_.begin()->first);
  }

 private:
  struct AnyCall {
    virtual ~AnyCall() = default;
    virtual void OnGone() = 0;
    virtual void Flush() = 0;
  };
  template <typename In, typename Out>
  class Call;

  void End(int64_t number) {
    auto call = calls_.extract(number);
    if (!call.empty()) call.mapped()->OnGone();
  }

  World* const world_;
  const std::shared_ptr<Life> scope_;
  int64_t next_ = 0;
  std::map<int64_t, std::unique_ptr<AnyCall>> calls_;
};

// A call that writes its queue after random delays. Messages wait in the queue
// if the peer reads slowly.
template <typename In, typename Out>
class ServedCalls::Call final : public AnyCall, public ServerStream<Out> {
 public:
  Call(ServedCalls* owner, int64_t number, std::shared_ptr<Link> link,
       Refused refused)
      : owner_(owner),
        number_(number),
        link_(std::move(link)),
        refused_(std::move(refused)) {}
  ~Call() override { link_->SetHandlers(Link::kServer, {}); }

  void Start(std::unique_ptr<ServerSession<In, Out>> session) {
    session_ = std::move(session);
    Link::Handlers handlers;
    handlers.message = [this](const Link::Message& message) {
      In received = static_cast<const In&>(message);
      ReceivedPayload payload = TakePayload(&received);
      handling_ = true;
      session_->OnMessage(received, std::move(payload));
      handling_ = false;
      greeted_ = true;
    };
    handlers.half_closed = [this] { session_->OnEnd(); };
    handlers.gone = [owner = owner_, number = number_](const absl::Status&) {
      owner->End(number);
    };
    link_->SetHandlers(Link::kServer, std::move(handlers));
  }

  using ServerStream<Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    if (closed_) return;
    queue_.emplace(priority, WithPayload(message, payload));
    FlushLater();
  }
  using ServerStream<Out>::Drop;
  bool Drop(absl::Span<const int64_t> priorities) override {
    return DropFrom(&queue_, priorities);
  }
  void Wake() override { FlushLater(); }
  void Close(const absl::Status& status) override {
    if (std::exchange(closed_, true)) return;
    if (handling_ && greeted_ && !status.ok()) refused_(status);
    WriteQueue();
    link_->Close(status);
  }

  void OnGone() override {
    link_->SetHandlers(Link::kServer, {});
    session_->OnGone();
  }
  void Flush() override {
    flushing_ = false;
    const bool sent = !queue_.empty();
    WriteQueue();
    Out more;
    if (session_ != nullptr && session_->TakeMore(&more)) {
      link_->Send(Link::kServer, more);
    }
    if (session_ != nullptr && sent && !closed_) session_->OnSent();
  }

 private:
  void FlushLater() {
    if (std::exchange(flushing_, true)) return;
    World* const world = owner_->world_;
    const absl::Duration wait = world->random.Between(
        absl::Microseconds(1), world->random.Chance(0.05)
                                   ? absl::Milliseconds(100)
                                   : absl::Microseconds(300));
    world->loop.After(wait, owner_->scope_, "-flush",
                      [owner = owner_, number = number_] {
                        const auto found = owner->calls_.find(number);
                        if (found != owner->calls_.end()) {
                          found->second->Flush();
                        }
                      });
  }
  void WriteQueue() {
    for (const auto& [priority, message] : queue_) {
      link_->Send(Link::kServer, message);
    }
    queue_.clear();
  }

  ServedCalls* const owner_;
  const int64_t number_;
  const std::shared_ptr<Link> link_;
  const Refused refused_;
  std::unique_ptr<ServerSession<In, Out>> session_;
  std::multimap<int64_t, Out> queue_;
  bool greeted_ = false;   // True if it has handled a message.
  bool handling_ = false;  // True while it handles a message.
  bool flushing_ = false;
  bool closed_ = false;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_STREAMS_H_
