// One call between two processes, as in gRPC: an ordered stream in each
// direction. The two sides may see its end in different ways and at different
// times.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_LINK_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_LINK_H_

#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "tests/simulation/world/event_loop.h"
#include "tests/simulation/world/network.h"

namespace tributary::simulation {

// A simulated gRPC call. Handlers run as events in their side's scope. After a
// side's `gone` handler, no handler of that side is called.
class Link : public std::enable_shared_from_this<Link> {
 public:
  enum Side { kClient = 0, kServer = 1 };
  using Message = google::protobuf::Message;
  struct Handlers {
    // Receives a message from the other side.
    std::function<void(const Message&)> message;
    // Servers only: the client has half-closed the stream.
    std::function<void()> half_closed;
    // The call has ended; for the client, with this status.
    std::function<void(const absl::Status&)> gone;
  };

  static std::shared_ptr<Link> Create(Network* network, const char* kind,
                                      std::shared_ptr<Life> client,
                                      std::shared_ptr<Life> server);

  void SetHandlers(Side side, Handlers handlers) {
    ends_[side].handlers = std::move(handlers);
  }
  const std::shared_ptr<Life>& life(Side side) const {
    return ends_[side].life;
  }

  // Runs `accept` on the server's side before any message arrives there.
  void Open(std::function<void()> accept);
  // Sends a message; messages arrive in order. Traces show the name of its
  // oneof field if it has one.
  void Send(Side from, const Message& message);
  // Called by the client; takes effect after all messages it has sent.
  void HalfClose();
  // Called by the server; takes effect after all messages it has sent. Messages
  // that the client sends before it receives the status still arrive.
  void Close(const absl::Status& status);
  // Called by the client; its side ends at once.
  void Cancel();

  // Simulates a connection failure. In each direction, only a prefix of the
  // messages in flight arrives. Each side notices the failure at its own time,
  // up to `notice` later, and what it sends until then is lost.
  void Cut(absl::Duration notice);
  // Ends the call because one side's process, or its scope, has ended.
  void SideEnded(Side side, absl::Duration notice);
  bool over() const { return ends_[0].gone && ends_[1].gone; }

 private:
  struct Parcel {
    absl::Time arrival;
    const char* label = "";
    std::function<void()> deliver;
    bool last = false;  // True if nothing after it is delivered.
  };
  struct End {
    std::shared_ptr<Life> life;
    Handlers handlers;
    // Messages in flight to this side.
    std::deque<Parcel> incoming;
    absl::Time last_arrival = absl::InfinitePast();
    bool closed_to = false;  // No further message is sent to this side.
    bool gone = false;
  };

  Link(Network* network, const char* kind) : network_(network), kind_(kind) {}

  void Put(Side to, Parcel parcel);
  void Pump(Side to);
  void Go(Side side, const absl::Status& status);
  // Drops a random suffix of the messages in flight to the side `to`, and
  // notifies that side of the end.
  void Truncate(Side to, absl::Duration notice);

  Network* const network_;
  const char* const kind_;
  End ends_[2];
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_LINK_H_
