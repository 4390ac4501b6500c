// The client's end of a stream over a simulated link.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_CLIENT_STREAM_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_CLIENT_STREAM_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/stream/message_stream.h"
#include "proto/parameter_server.pb.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/streams.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// The failpoint of a worker that has sent its chunks and not yet its rows.
inline constexpr char kLateRows[] = "-late rows";

// Probabilities of faults that affect what a client sends after its first
// message.
struct ClientFaults {
  // Probability that messages written together are reordered.
  double reordered = 0;
  double repeated = 0;  // Probability that a message is written again later.
  // Probability that gradients of rows are written later than other messages,
  // so that a worker may be lost between its chunks and its rows.
  double late_rows = 0;
};

// A client's stream that writes its queue after random delays.
template <typename In, typename Out>
class SimulatedClientStream final : public ClientStream<In, Out> {
 public:
  // Calls connect(done) to start; see World::Connect.
  using Connected = std::function<void(absl::StatusOr<std::shared_ptr<Link>>)>;
  using Connect = std::function<void(Connected done)>;

  SimulatedClientStream(World* world, std::shared_ptr<Life> scope,
                        Connect connect, ClientFaults faults = {})
      : state_(std::make_shared<State>(world, std::move(scope), faults)),
        connect_(std::move(connect)) {}
  // Uses `link`, which is connected already.
  SimulatedClientStream(World* world, std::shared_ptr<Life> scope,
                        std::shared_ptr<Link> link, ClientFaults faults = {})
      : SimulatedClientStream(
            world, std::move(scope),
            [link](const Connected& done) { done(link); }, faults) {}
  ~SimulatedClientStream() override { state_->Leave(); }

  void Start(ClientSession<In, Out>* session) override {
    state_->session = session;
    connect_([state = state_](absl::StatusOr<std::shared_ptr<Link>> link) {
      state->OnConnected(std::move(link));
    });
  }
  using ClientStream<In, Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    if (state_->half_closed || state_->gone) return;
    state_->queue.emplace(priority, WithPayload(message, payload));
    state_->FlushLater();
  }
  void Wake() override { state_->FlushLater(); }
  void HalfClose() override {
    state_->half_closed = true;
    state_->FlushLater();
  }
  void Cancel() override {
    if (state_->gone || std::exchange(state_->cancelled, true)) return;
    if (state_->link != nullptr) state_->link->Cancel();
    state_->After("cancelled", [](State* state) { state->EndCancelled(); });
  }
  void Resume() override {
    state_->After("-resume", [](State* state) {
      state->paused = false;
      state->Deliver();
    });
  }
  absl::Status AwaitDone() override {
    if (state_->cancelled) state_->EndCancelled();
    absl::MutexLock lock(&state_->mu);
    Await(&state_->mu, absl::Condition(&state_->gone));
    return state_->status;
  }

 private:
  // Shared, because events may come after the stream's end.
  struct State : std::enable_shared_from_this<State> {
    State(World* w, std::shared_ptr<Life> s, ClientFaults f)
        : world(w), scope(std::move(s)), faults(f) {}

    void OnConnected(absl::StatusOr<std::shared_ptr<Link>> connected) {
      if (gone || cancelled) {
        if (connected.ok()) (*connected)->Cancel();
        return;
      }
      if (!connected.ok()) {
        End(connected.status());
        return;
      }
      link = *std::move(connected);
      Link::Handlers handlers;
      handlers.message =
          [state = this->shared_from_this()](const Link::Message& message) {
            state->incoming.push_back(static_cast<const In&>(message));
            state->Deliver();
          };
      handlers.gone = [state = this->shared_from_this()](
                          const absl::Status& status) { state->End(status); };
      link->SetHandlers(Link::kClient, std::move(handlers));
      if (!queue.empty() || half_closed) FlushLater();
    }

    void Deliver() {
      while (!gone && !cancelled && !paused && !incoming.empty()) {
        In message = std::move(incoming.front());
        incoming.pop_front();
        ReceivedPayload payload = TakePayload(&message);
        paused = true;  // Until the session has returned true, or Resume.
        if (session->OnMessage(message, std::move(payload))) paused = false;
      }
    }

    void FlushLater() {
      if (link == nullptr || std::exchange(flushing, true)) return;
      world->loop.After(greeted ? world->random.Between(absl::Microseconds(1),
                                                        absl::Microseconds(500))
                                : absl::ZeroDuration(),
                        scope, "-flush",
                        [state = this->shared_from_this()] { state->Flush(); });
    }

    void Flush() {
      flushing = false;
      if (gone || cancelled) return;
      std::vector<Out> messages;
      for (auto& [priority, message] : queue) {
        messages.push_back(std::move(message));
      }
      queue.clear();
      Out more;
      if (session->TakeMore(&more)) messages.push_back(std::move(more));
      if (messages.empty() && !half_closed) return;
      if (std::exchange(greeted, true)) Disturb(&messages);
      for (const Out& message : messages) {
        if (IsLate(message)) {
          SendLater(message, kLateRows, absl::Milliseconds(50));
        } else {
          link->Send(Link::kClient, message);
        }
      }
      if (half_closed) link->HalfClose();
    }

    // A contribution before the assignment that it belongs to is an error, and
    // assignments replace each other.
    static bool KeepsPlace(const Out& message) {
      if constexpr (std::is_same_v<Out, WorkerMessage>) {
        return message.has_assigned();
      } else {
        return false;
      }
    }

    // A second answer to a request is an error.
    static bool MayRepeat(const Out& message) {
      if constexpr (std::is_same_v<Out, WorkerMessage>) {
        return !message.has_rows_request();
      } else {
        return true;
      }
    }

    // Reorders and repeats some messages, which must not change the result.
    void Disturb(std::vector<Out>* messages) {
      Random* const random = &world->random;
      if (messages->size() > 1 && random->Chance(faults.reordered)) {
        ++world->injected["reordered"];
        const auto first = static_cast<size_t>(
            std::stable_partition(messages->begin(), messages->end(),
                                  KeepsPlace) -
            messages->begin());
        for (size_t i = messages->size(); i > first + 1; --i) {
          std::swap(
              (*messages)[i - 1],
              (*messages)[static_cast<size_t>(random->Uniform(
                  static_cast<int64_t>(first), static_cast<int64_t>(i) - 1))]);
        }
      }
      for (const Out& message : *messages) {
        if (!MayRepeat(message) || !random->Chance(faults.repeated)) continue;
        ++world->injected["repeated"];
        SendLater(message, "-repeat", absl::Milliseconds(500));
      }
    }

    bool IsLate(const Out& message) {
      if constexpr (std::is_same_v<Out, WorkerMessage>) {
        if (!message.has_row_contribution() || faults.late_rows == 0 ||
            !world->random.Chance(faults.late_rows)) {
          return false;
        }
        ++world->injected["late rows"];
        return true;
      } else {
        return false;
      }
    }

    // Sends the message up to `most` later.
    void SendLater(const Out& message, const char* label, absl::Duration most) {
      world->loop.After(
          world->random.Between(absl::ZeroDuration(), most), scope, label,
          [l = link, message] { l->Send(Link::kClient, message); });
    }

    // Runs `action` in an event of its own, unless the stream is gone by then.
    void After(const char* label, void (*action)(State*)) {
      world->loop.After(absl::Microseconds(10), scope, label,
                        [state = this->shared_from_this(), action] {
                          if (!state->gone) action(state.get());
                        });
    }

    void EndCancelled() { End(absl::CancelledError("cancelled")); }
    void End(const absl::Status& end) {
      if (gone || session == nullptr) return;
      session->OnGone(end);
      Leave();
      status = end;
    }
    // Ends the stream without calling the session.
    void Leave() {
      gone = true;
      incoming.clear();
      if (link == nullptr) return;
      link->Cancel();
      link->SetHandlers(Link::kClient, {});
    }

    World* const world;
    const std::shared_ptr<Life> scope;
    const ClientFaults faults;
    ClientSession<In, Out>* session = nullptr;
    std::shared_ptr<Link> link;
    std::multimap<int64_t, Out> queue;
    std::deque<In> incoming;
    bool paused = false;
    bool flushing = false;
    bool greeted = false;  // True once the first message was written.
    bool half_closed = false;
    bool cancelled = false;
    absl::Mutex mu;  // For AwaitDone.
    bool gone = false;
    absl::Status status;
  };

  const std::shared_ptr<State> state_;
  const Connect connect_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_CLIENT_STREAM_H_
