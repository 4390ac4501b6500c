// The schedule PLATEAU: see ScheduleSpec in proto/job.proto.
#ifndef TRIBUTARY_SERVER_PROGRESS_PLATEAU_H_
#define TRIBUTARY_SERVER_PROGRESS_PLATEAU_H_

#include <cstdint>
#include <optional>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/progress/evaluation_history.h"

namespace tributary {

// Lowers the learning rate when evaluations stop getting better, as PyTorch's
// ReduceLROnPlateau with threshold_mode 'rel' and eps 0. Its decisions depend
// only on the results of the evaluations, and its state is part of JobState, so
// interruptions of the job do not change them. Not thread-safe.
class Plateau {
 public:
  // Another schedule than PLATEAU never lowers the learning rate.
  explicit Plateau(const JobSpec& job);

  // Restore reads, and Save writes, the fields of JobState that belong to this
  // class. Restore keeps the factor, but ignores results of another metric.
  void Restore(const JobState& state);
  void Save(JobState* state) const;

  // Adds the next evaluation of the job.
  void Add(const Evaluation& evaluation);
  // Returns the factor of the learning rate of the steps after it. Nullopt with
  // another schedule.
  std::optional<double> factor() const {
    return active_ ? std::optional<double>(factor_) : std::nullopt;
  }

 private:
  bool IsBetter(double result) const;

  const ScheduleSpec schedule_;
  const bool active_;
  const double least_factor_;
  double factor_ = 1;
  std::optional<double> best_;
  int64_t evaluations_ = 0;  // In a row that were no improvement.
  int64_t cooldown_ = 0;     // Evaluations that will not count.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_PLATEAU_H_
