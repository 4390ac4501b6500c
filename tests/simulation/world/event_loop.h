// Virtual time: runs the events of many processes one at a time, on one thread.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_EVENT_LOOP_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_EVENT_LOOP_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/simulation/jobs/random.h"

namespace tributary::simulation {

class Link;

// The scope that events belong to: a process from its start to its end, or a
// part of that, such as an attempt or a stay. Events of a scope that has ended
// do not run. Events of a paused process wait.
struct Life : std::enable_shared_from_this<Life> {
  std::string name;
  int process = 0;               // Number of the process.
  std::shared_ptr<Life> parent;  // Null for the process itself.
  bool ended = false;
  // For processes only: the process has reached the point at which it crashes.
  // The rest of the running event then has no effect on other processes.
  bool dying = false;
  absl::Time paused_until = absl::InfinitePast();  // For processes only.
  std::vector<std::weak_ptr<Link>> links;  // Includes the links of its parts.

  bool IsPartOf(const Life* whole) const {
    return this == whole || (parent != nullptr && parent->IsPartOf(whole));
  }
  Life* root() { return parent == nullptr ? this : parent->root(); }
  bool gone() const { return ended || (parent != nullptr && parent->gone()); }
  // Returns true if other processes no longer receive anything from this
  // process.
  bool silent() { return gone() || root()->dying; }
};

// Runs events in the order of their times. Not thread-safe.
class EventLoop {
 public:
  // Calls `crash` after an event whose process is dying, and `settled` after
  // any other event of a process.
  EventLoop(bool tracing, std::function<void(Life*)> crash,
            std::function<void(const Life&)> settled)
      : tracing_(tracing),
        crash_(std::move(crash)),
        settled_(std::move(settled)) {}

  absl::Time now() const { return now_; }
  int64_t events() const { return events_; }
  // Returns a hash of all events so far, in order. It is equal for equal
  // histories.
  uint64_t hash() const { return hash_; }
  // Returns the scope of the running event; null if the event belongs to no
  // process.
  Life* running() const { return running_; }

  // Schedules an event. `label` must live forever. Events at the same time run
  // in the order in which they were scheduled. A null `life` is for events
  // outside all processes.
  void After(absl::Duration delay, std::shared_ptr<Life> life,
             const char* label, std::function<void()> action);
  void At(absl::Time time, std::shared_ptr<Life> life, const char* label,
          std::function<void()> action);

  // Runs the next event. Returns false if there is none.
  bool RunOne();
  // Discards all events.
  void Clear() { queue_ = {}; }

  bool tracing() const { return tracing_; }
  template <typename... Args>
  void Trace(const Args&... args) const {
    if (tracing_) Print(absl::StrCat(args...));
  }

 private:
  struct Event {
    absl::Time time;
    uint64_t number = 0;
    std::shared_ptr<Life> life;
    const char* label = "";
    std::function<void()> action;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  void Print(const std::string& line) const;

  const bool tracing_;
  const std::function<void(Life*)> crash_;
  const std::function<void(const Life&)> settled_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t next_number_ = 0;
  int64_t events_ = 0;
  uint64_t hash_ = 0;
  Life* running_ = nullptr;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_EVENT_LOOP_H_
