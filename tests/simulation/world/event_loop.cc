#include "tests/simulation/world/event_loop.h"

namespace tributary::simulation {

void EventLoop::After(absl::Duration delay, std::shared_ptr<Life> life,
                      const char* label, std::function<void()> action) {
  At(now_ + delay, std::move(life), label, std::move(action));
}

void EventLoop::At(absl::Time time, std::shared_ptr<Life> life,
                   const char* label, std::function<void()> action) {
  if (life != nullptr && life->silent()) return;
  queue_.push({std::max(time, now_), next_number_++, std::move(life), label,
               std::move(action)});
}

bool EventLoop::RunOne() {
  while (!queue_.empty()) {
    // Moving is safe: the queue does not compare this element again before pop.
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    Life* const life = event.life.get();
    if (life != nullptr) {
      if (life->gone()) continue;
      const absl::Time until = life->root()->paused_until;
      if (until > event.time) {
        // The event keeps its number, and with it its order.
        event.time = until;
        queue_.push(std::move(event));
        continue;
      }
    }
    now_ = event.time;
    ++events_;
    hash_ = Mix(hash_, static_cast<uint64_t>(absl::ToUnixNanos(now_)));
    for (const char* c = event.label; *c != '\0'; ++c) {
      hash_ = hash_ * 31 + static_cast<uint64_t>(*c);
    }
    hash_ += life == nullptr ? 0 : static_cast<uint64_t>(life->process);
    if (tracing_ && event.label[0] != '-') {
      Trace(life == nullptr ? "world" : life->name, ": ", event.label);
    }
    running_ = life;
    event.action();
    running_ = nullptr;
    if (life == nullptr) return true;
    if (life->root()->dying && !life->root()->ended) {
      crash_(life->root());
    } else {
      settled_(*life->root());
    }
    return true;
  }
  return false;
}

void EventLoop::Print(const std::string& line) const {
  std::printf("%10.6f %s\n", absl::ToDoubleSeconds(now_ - absl::UnixEpoch()),
              line.c_str());
}

}  // namespace tributary::simulation
