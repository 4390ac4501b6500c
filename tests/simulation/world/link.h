// One call between two processes, as gRPC gives it: an ordered stream each way,
// which ends in one way or another at both ends, but not at the same time.
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

// Handlers run as events of their side's life. After `gone` of a side nothing
// of it is called any more.
class Link : public std::enable_shared_from_this<Link> {
 public:
  enum Side { kClient = 0, kServer = 1 };
  using Message = google::protobuf::Message;
  struct Handlers {
    // Of the kind that the other end sends.
    std::function<void(const Message&)> message;
    // The client has said its last word. Servers only.
    std::function<void()> half_closed;
    // The call is over; for the client, with this status.
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

  // Has `accept` run at the server's end before anything else comes there.
  void Open(std::function<void()> accept);
  // What is sent arrives after all that was sent before. `message` is
  // known in traces by the field of its oneof, if it has one.
  void Send(Side from, const Message& message);
  // By the client, after what it has sent.
  void HalfClose();
  // By the server, after what it has sent. What the client says before it has
  // heard still comes.
  void Close(const absl::Status& status);
  // By the client: it is gone at once.
  void Cancel();

  // What the network does. Of the messages on the way in each direction only
  // the first few arrive; each end hears of it at its own time, up to `notice`
  // later, and until then talks to nobody.
  void Cut(absl::Duration notice);
  // One side's process, or what it had this call for, has ended.
  void SideEnded(Side side, absl::Duration notice);
  bool over() const { return ends_[0].gone && ends_[1].gone; }

 private:
  struct Parcel {
    absl::Time arrival;
    const char* label = "";
    std::function<void()> deliver;
    bool last = false;  // What follows is not delivered.
  };
  struct End {
    std::shared_ptr<Life> life;
    Handlers handlers;
    // What is on the way here.
    std::deque<Parcel> incoming;
    absl::Time last_arrival = absl::InfinitePast();
    bool closed_to = false;  // Nothing more is put on the way.
    bool gone = false;
  };

  Link(Network* network, const char* kind) : network_(network), kind_(kind) {}

  void Put(Side to, Parcel parcel);
  void Pump(Side to);
  void Go(Side side, const absl::Status& status);
  // Lets a random part of what is on the way to the side be lost, and tells it
  // of the end.
  void Truncate(Side to, absl::Duration notice);

  Network* const network_;
  const char* const kind_;
  End ends_[2];
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_LINK_H_
