// Where a contribution's gradient lies until it is added up: in memory, or
// still in the pieces in which it came from the wire.
#ifndef TRIBUTARY_SERVER_STORE_AGGREGATION_GRADIENT_SOURCE_H_
#define TRIBUTARY_SERVER_STORE_AGGREGATION_GRADIENT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <utility>

namespace tributary {

// Immutable, and safe from any thread.
class GradientSource {
 public:
  virtual ~GradientSource() = default;

  // Elements [begin, begin + count) of the chunk: where they are, or `scratch`
  // after copying them there. Valid as long as the source and the scratch are.
  virtual const float* Read(int64_t begin, int64_t count,
                            float* scratch) const = 0;

  // All elements in one piece, as Read gives them but for the rounding to
  // exchange.wire_dtype; null where they are not in memory so. Valid as long as
  // the source is.
  virtual const float* InOnePiece() const { return nullptr; }

  // Most elements are 0, so that Add takes less time than Read.
  virtual bool sparse() const { return false; }
  // sum[i] += element begin + i, for i < count; nothing is added where that is
  // 0. Only of what is sparse.
  virtual void Add(int64_t /*begin*/, int64_t /*count*/, float* /*sum*/) const {
  }
};

// A gradient in one piece, kept alive by `owner`.
class GradientInMemory final : public GradientSource {
 public:
  GradientInMemory(const float* values, std::shared_ptr<const void> owner)
      : values_(values), owner_(std::move(owner)) {}

  const float* Read(int64_t begin, int64_t, float*) const override {
    return values_ + begin;
  }
  const float* InOnePiece() const override { return values_; }

 private:
  const float* const values_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_AGGREGATION_GRADIENT_SOURCE_H_
