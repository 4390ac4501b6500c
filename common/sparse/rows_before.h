// Earlier values of the rows that steps have changed.
#ifndef TRIBUTARY_COMMON_SPARSE_ROWS_BEFORE_H_
#define TRIBUTARY_COMMON_SPARSE_ROWS_BEFORE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"

namespace tributary {

// The values that rows had before one step changed or removed them.
class RowsBefore {
 public:
  // Memory for values.
  struct Space {
    Buffer values;
    int64_t elements = 0;
  };

  // `keys` are those of the step's gradient, ascending. `space` has room for a
  // row of `dim` values for each key. Before the rows are read, the caller
  // writes the values of each row that existed, and calls Existed.
  RowsBefore(std::vector<uint64_t> keys, Space space, int dim)
      : keys_(std::move(keys)),
        space_(std::move(space)),
        values_(space_.values.get()),
        dim_(dim),
        existed_(keys_.size()) {}

  float* values(int64_t place) { return values_ + place * dim_; }
  // Records that the key number `place` of the gradient had a row.
  void Existed(int64_t place) { existed_[place] = true; }
  // Records what a key without a gradient was: such as one whose row the step
  // has removed.
  void Add(uint64_t key, bool existed, const float* values);
  // Call after calls of Add, before reading.
  void Finish();

  enum class State {
    kUnchanged,  // The step left the key as it was.
    kAbsent,     // The key had no row before the step.
    kPresent,    // The key had a row before the step.
  };
  // Finds keys in ascending order.
  class Reader {
   public:
    explicit Reader(const RowsBefore* rows) : rows_(rows) {}
    // Returns the state of `key`, which is above the key of the previous call,
    // and sets `*values` to the values of its row if it is kPresent.
    State Find(uint64_t key, const float** values);

   private:
    const RowsBefore* rows_;
    size_t place_ = 0;  // In keys_.
    size_t other_ = 0;  // In other_keys_.
  };

  // Calls visit(key, existed, values) for each key, in any order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = 0; i < keys_.size(); ++i) {
      visit(keys_[i], existed_[i], values_ + static_cast<int64_t>(i) * dim_);
    }
    for (size_t i = 0; i < other_keys_.size(); ++i) {
      visit(other_keys_[i], other_existed_[i],
            other_values_.data() + static_cast<int64_t>(i) * dim_);
    }
  }

  // Takes the space of the constructor, to use it again. Call it last.
  Space TakeSpace() { return std::move(space_); }

 private:
  const std::vector<uint64_t> keys_;
  Space space_;
  float* const values_;  // [keys, dim]
  const int dim_;
  std::vector<bool> existed_;
  // What Add was called with; ascending after Finish.
  std::vector<uint64_t> other_keys_;
  std::vector<bool> other_existed_;
  std::vector<float> other_values_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROWS_BEFORE_H_
