// Message latencies, and network partitions between processes.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_NETWORK_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_NETWORK_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/jobs/random.h"
#include "tests/simulation/world/event_loop.h"

namespace tributary::simulation {

class Network {
 public:
  // A fraction `slow` of all messages takes up to `slowest`, the others at most
  // a millisecond. `loop` and `random` must outlive this object.
  Network(EventLoop* loop, Random* random, double slow, absl::Duration slowest)
      : loop_(loop), random_(random), slow_(slow), slowest_(slowest) {}

  EventLoop* loop() { return loop_; }
  Random* random() { return random_; }

  // Returns the random latency of a message.
  absl::Duration Latency() {
    return random_->Chance(slow_)
               ? random_->Between(absl::Milliseconds(1), slowest_)
               : random_->Between(absl::Microseconds(20),
                                  absl::Milliseconds(1));
  }

  // Blocks messages between the two processes, in this direction, until
  // `until`.
  void Block(int from, int to, absl::Time until) {
    absl::Time& known = blocked_[{from, to}];
    known = std::max(known, until);
  }
  // Returns when messages in this direction get through again; a time in the
  // past if they are not blocked.
  absl::Time BlockedUntil(int from, int to) const {
    const auto found = blocked_.find({from, to});
    return found == blocked_.end() ? absl::InfinitePast() : found->second;
  }

 private:
  EventLoop* const loop_;
  Random* const random_;
  const double slow_;
  const absl::Duration slowest_;
  std::map<std::pair<int, int>, absl::Time> blocked_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_NETWORK_H_
