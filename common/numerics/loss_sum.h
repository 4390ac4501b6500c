// The sum of the losses of some samples, which may be unknown.
#ifndef TRIBUTARY_COMMON_NUMERICS_LOSS_SUM_H_
#define TRIBUTARY_COMMON_NUMERICS_LOSS_SUM_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace tributary {

// The sum of the losses of some samples. It is unknown if a user's program has
// not reported the loss of one of them, and may be NaN or infinite. The object
// is one float64 number, and all_reduce sends its bytes: an unknown sum is the
// NaN whose bits are all 1, which no computation yields.
class LossSum {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): sums are mostly known.
  LossSum(double sum = 0)
      : sum_(std::isnan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum) {
  }
  static LossSum Unknown() {
    LossSum unknown;
    std::memset(&unknown.sum_, 0xff, sizeof(unknown.sum_));
    return unknown;
  }

  // Returns the sum, or nullopt if it is unknown.
  std::optional<double> value() const {
    uint64_t bits = 0;
    std::memcpy(&bits, &sum_, sizeof(bits));
    if (bits == ~uint64_t{0}) return std::nullopt;
    return sum_;
  }

  // The sum of an unknown sum and any other is unknown.
  friend LossSum operator+(const LossSum& a, const LossSum& b) {
    const std::optional<double> left = a.value();
    const std::optional<double> right = b.value();
    return left.has_value() && right.has_value() ? LossSum(*left + *right)
                                                 : Unknown();
  }
  LossSum& operator+=(const LossSum& other) { return *this = *this + other; }
  friend bool operator==(const LossSum& a, const LossSum& b) {
    return a.value() == b.value();
  }

 private:
  double sum_;
};
static_assert(sizeof(LossSum) == sizeof(double), "sent as a float64 number");

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_LOSS_SUM_H_
