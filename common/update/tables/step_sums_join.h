// Puts together what a server's chunks and tables report about a step.
#ifndef TRIBUTARY_COMMON_UPDATE_TABLES_STEP_SUMS_JOIN_H_
#define TRIBUTARY_COMMON_UPDATE_TABLES_STEP_SUMS_JOIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Merges two StepSums of each step: that of the chunks and that of the tables.
// Thread-safe.
class StepSumsJoin {
 public:
  // Calls `on_sums` with each merged report. The calls are in the order of the
  // steps if the next step of a part follows its call of Add. `parts` is 1 if
  // the server has no chunks.
  StepSumsJoin(int parts, std::function<void(const StepSums&)> on_sums)
      : parts_(parts), on_sums_(std::move(on_sums)) {}

  void Add(const StepSums& part) ABSL_LOCKS_EXCLUDED(mu_) {
    StepSums sums;
    {
      absl::MutexLock lock(&mu_);
      Open& open = open_[part.step()];
      open.sums.MergeFrom(part);
      if (++open.parts < parts_) return;
      sums = std::move(open.sums);
      open_.erase(part.step());
    }
    on_sums_(sums);
  }

 private:
  struct Open {
    StepSums sums;
    int parts = 0;
  };

  const int parts_;
  const std::function<void(const StepSums&)> on_sums_;
  absl::Mutex mu_;
  std::map<int64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_TABLES_STEP_SUMS_JOIN_H_
