// The state of the micro-batch, or of the evaluation piece, that the program is
// computing.
#ifndef TRIBUTARY_LIBRARY_MICRO_BATCH_STATE_H_
#define TRIBUTARY_LIBRARY_MICRO_BATCH_STATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "library/handover.h"
#include "tributary/worker.h"

namespace tributary {

// Implements MicroBatch, through which the user's program computes one item of
// work: maps parameters to their places in the arenas, reports to the observer
// which weights are needed and which gradients are final, and checks the
// program's calls. Records the first error, and ignores later calls. After an
// error or Finish, weights() and gradient() return host memory of this object,
// or empty spans if the arenas are in the memory of a GPU. If the micro-batch
// was given up, weights() returns zeros or, on a GPU, any values. Used by the
// program's thread only.
class MicroBatchState {
 public:
  // Calls `done` once, when the micro-batch ends, with its status: OK, the
  // first error, or Aborted if it was given up. `layout` must outlive this
  // object, and `work` must exist until `done` is called.
  MicroBatchState(Work* work, const ArenaLayout* layout,
                  std::function<void(const absl::Status&)> done);

  // These methods implement the methods of MicroBatch with the same names.
  int64_t step() const { return step_; }
  int number() const { return number_; }
  int64_t epoch() const { return epoch_; }
  absl::Span<const int64_t> indexes() const { return indexes_; }
  Random random(int layer);
  absl::Span<const float> weights(int parameter);
  absl::Span<float> gradient(int parameter);
  void* gpu_stream() const { return gpu_stream_; }
  void SetSampleCount(int64_t count);
  void SetLearningRate(double rate);
  int LookUp(int feature, const Bags& bags, absl::Span<float> vectors);
  void AddGradient(int look_up, absl::Span<const float> gradient);
  void Ready(int parameter);
  void Add(int parameter, absl::Span<const float> values);
  void Finish(std::optional<double> loss_sum);
  bool aborted() const { return aborted_; }

  // Ends the micro-batch. Called when the program requests the next item of
  // work. Records an error if the program has not called Finish, unless the
  // micro-batch was given up.
  void Leave();
  // Returns the first error, or OK.
  const absl::Status& status() const { return status_; }

 private:
  // Records an InvalidArgument error with `message`, unless there was an
  // earlier error.
  void Refuse(absl::string_view message);
  // Returns true if the method named `call` may proceed. Otherwise records an
  // error.
  bool Allows(int parameter, absl::string_view call);
  // Returns true if the micro-batch has neither ended nor had an error. Records
  // an error if it has ended.
  bool Open(absl::string_view call);
  // Called before the first gradient is passed on. Waits for all weights. If
  // the micro-batch is given up during this wait, none of its gradients is
  // passed on.
  void BeginBackward();
  // Ends the micro-batch and calls done_, with the first error if there is one,
  // and otherwise with the reason if it was given up.
  void End();
  // Returns memory of this object with the size of the parameter, or an empty
  // span if the arenas are in the memory of a GPU.
  absl::Span<float> Spare(int parameter);
  const Parameter& place(int parameter) const {
    return layout_->parameters()[parameter];
  }

  Work* work_;  // Null when the micro-batch has ended.
  const ArenaLayout* const layout_;
  const std::function<void(const absl::Status&)> done_;
  const uint64_t seed_;
  const int64_t step_;
  const int number_;
  const int64_t epoch_;
  const std::vector<int64_t> indexes_;
  const bool on_gpu_;  // True if the arenas are in the memory of a GPU.
  void* const gpu_stream_;

  absl::Status status_;
  bool aborted_ = false;
  // Why rows did not arrive, if that is the reason why aborted_ is true.
  absl::Status rows_status_;
  bool backward_ = false;  // True once Ready or Add was called.
  // Argument of SetSampleCount; -1 if it was not called.
  int64_t sample_count_ = -1;
  // Argument of SetLearningRate; absent if it was not called.
  std::optional<double> learning_rate_;
  // True for each parameter whose weights have arrived.
  std::vector<bool> arrived_;
  std::vector<bool> ready_;  // True for each parameter whose gradient is ready.
  // The gradients of parameter sent_ and of all later ones were passed on.
  int sent_;
  std::vector<float> zeros_;
  std::vector<float> spare_;
};

// Implements EvaluationPiece, through which the user's program evaluates one
// piece of the evaluation data. See MicroBatchState for `done`, errors and
// threads.
class PieceState {
 public:
  PieceState(Work* work, const ArenaLayout* layout,
             std::function<void(const absl::Status&)> done);

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  absl::Span<const float> weights(int parameter);
  void LookUp(int feature, const Bags& bags, absl::Span<float> vectors);
  void AddMetric(const std::string& name, double sum, double count);
  void Report(double loss_sum, int64_t correct, int64_t count);

  void Leave();
  const absl::Status& status() const { return status_; }

 private:
  void Refuse(absl::string_view message);

  Work* work_;  // Null when the piece has ended.
  const ArenaLayout* const layout_;
  const std::function<void(const absl::Status&)> done_;
  const int64_t begin_;
  const int64_t end_;
  const bool on_gpu_;
  absl::Status status_;
  absl::Status rows_status_;  // Why rows did not arrive.
  std::vector<LossSums::Metric> metrics_;
  std::vector<float> zeros_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_MICRO_BATCH_STATE_H_
