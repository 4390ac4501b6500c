// Virtual time: events of many processes, run one at a time on one thread.
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
#include "tests/simulation/world/random.h"

namespace tributary::simulation {

class Link;

// What events belong to: a process from its start to its end, or a part of that
// (an attempt, a stay). Events of what has ended are never run, those of what
// stands still wait.
struct Life {
  std::string name;
  int process = 0;               // The number of the process.
  std::shared_ptr<Life> parent;  // Null: the process itself.
  bool ended = false;
  // The process has come to the point at which it crashes: the rest of the
  // event that is running has no effect on anybody else. Of processes only.
  bool dying = false;
  absl::Time paused_until = absl::InfinitePast();  // Of processes only.
  std::vector<std::weak_ptr<Link>> links;          // Of its parts, too.

  bool IsPartOf(const Life* whole) const {
    return this == whole || (parent != nullptr && parent->IsPartOf(whole));
  }
  Life* root() { return parent == nullptr ? this : parent->root(); }
  bool gone() const { return ended || (parent != nullptr && parent->gone()); }
  // Nobody hears it any more.
  bool silent() { return gone() || root()->dying; }
};

class EventLoop {
 public:
  // `crash` is called after an event whose process is dying.
  EventLoop(bool tracing, std::function<void(Life*)> crash)
      : tracing_(tracing), crash_(std::move(crash)) {}

  absl::Time now() const { return now_; }
  int64_t events() const { return events_; }
  // Of all events so far, in their order: equal for equal histories.
  uint64_t hash() const { return hash_; }
  // Whose event is running; null: nobody's.
  Life* running() const { return running_; }

  // `label` must live for ever. Of events at the same time the first given runs
  // first. `life` null: the world outside.
  void After(absl::Duration delay, std::shared_ptr<Life> life,
             const char* label, std::function<void()> action);
  void At(absl::Time time, std::shared_ptr<Life> life, const char* label,
          std::function<void()> action);

  // False: there are none.
  bool RunOne();
  // Gives up what is left.
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
  absl::Time now_ = absl::UnixEpoch();
  uint64_t next_number_ = 0;
  int64_t events_ = 0;
  uint64_t hash_ = 0;
  Life* running_ = nullptr;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_EVENT_LOOP_H_
