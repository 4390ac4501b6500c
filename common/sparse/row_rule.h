// The update rules of rows.
#ifndef TRIBUTARY_COMMON_SPARSE_ROW_RULE_H_
#define TRIBUTARY_COMMON_SPARSE_ROW_RULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {

// A RowRule at one step, with the coefficients for all rows.
class RowStep {
 public:
  // Updates a row of `dim` values in place. `gradient_sum` is the sum of the
  // batch's gradients for the row. Copies the values before the step to
  // `before`. The arrays must not overlap. Denormal numbers count as zero if
  // the caller has a FlushDenormals.
  void Update(const float* gradient_sum, int dim, float* values, float* state,
              float* before) const;
  // Call it after the last Update, before another thread reads what they have
  // written.
  static void Finish();

 private:
  friend class RowRule;

  // Coefficients of row_wise_adagrad.
  struct RowWise {
    float rate = 0;
    float epsilon = 0;
    float weight_decay = 0;
    float gradient_scale = 1;
  };

  bool row_wise_ = false;  // True: row_ applies; false: elements_.
  RowWise row_;
  OptimizerStep elements_;
  int slots_ = 0;
};

// The update rule of a table: `row_wise_adagrad`, or a rule that updates each
// element like the optimizer with the same name. Has no state of its own. Each
// row is computed by a fixed sequence of float32 operations, so the result has
// the same bits on every x86-64 processor. Immutable and thread-safe.
class RowRule {
 public:
  // Returns InvalidArgument, naming the field below "optimizer", if an option
  // is out of range.
  static absl::StatusOr<RowRule> Create(const SparseTableSpec& spec);

  // Part of a row's state: an array of one number for each value, or one number
  // for the row.
  struct Slot {
    std::string name;
    bool row_wise = false;
  };
  const std::vector<Slot>& slots() const { return slots_; }
  // Returns how many numbers the state of a row of `dim` values has.
  int StateElements(int dim) const;

  // Returns the rule for the step after `number` steps. The gradient is the sum
  // of the gradients times `gradient_scale`; the learning rate is that of the
  // rule times `rate_factor`.
  RowStep At(int64_t number, float gradient_scale, double rate_factor) const;

 private:
  RowRule() = default;

  double learning_rate_ = 0;
  AdagradSpec row_wise_;
  // Null for row_wise_adagrad.
  std::shared_ptr<const Optimizer> optimizer_;
  std::vector<Slot> slots_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_RULE_H_
