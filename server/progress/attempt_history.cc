#include "server/progress/attempt_history.h"

#include <algorithm>

namespace tributary {

void AttemptHistory::Add(bool trained, bool memory_failed, absl::Time now) {
  last_ = now;
  if (trained) {
    memory_failures_ = 0;
    stuck_since_ = absl::InfiniteFuture();
    return;
  }
  if (memory_failed) ++memory_failures_;
  stuck_since_ = std::min(stuck_since_, now);
}

}  // namespace tributary
