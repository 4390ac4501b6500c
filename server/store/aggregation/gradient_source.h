// The gradient of a contribution (the gradient sum of one chunk that a worker
// sends), as it is kept until it is summed: an array in the memory of the host
// or of a GPU, or a received message that is decoded when it is read.
#ifndef TRIBUTARY_SERVER_STORE_AGGREGATION_GRADIENT_SOURCE_H_
#define TRIBUTARY_SERVER_STORE_AGGREGATION_GRADIENT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <utility>

namespace tributary {

// Provides the elements of the gradient of one chunk. Immutable and
// thread-safe.
class GradientSource {
 public:
  virtual ~GradientSource() = default;

  // Returns elements [begin, begin + count) of the chunk: a pointer to them, or
  // `scratch` after copying them there. `scratch` must have room for `count`
  // floats. The result is valid until the source is destroyed or `scratch` is
  // changed.
  virtual const float* Read(int64_t begin, int64_t count,
                            float* scratch) const = 0;

  // Returns all elements as one array, before the rounding to
  // exchange.wire_dtype that Read does. Returns null if there is no such array.
  // The result is valid as long as the source exists.
  virtual const float* InOnePiece() const { return nullptr; }

  // Returns all elements as one array in the memory of the device that runs the
  // passes (see DeviceShare), which the host cannot access. Returns null if the
  // elements are not in that memory. The result is valid as long as the source
  // exists.
  virtual const float* OnDevice() const { return nullptr; }

  // Returns true if most elements usually are 0, so that Add takes less time
  // than Read.
  virtual bool sparse() const { return false; }
  // Adds element begin + i to sum[i], for each i < count. Skips elements that
  // are 0. Call it only if sparse() is true.
  virtual void Add(int64_t /*begin*/, int64_t /*count*/, float* /*sum*/) const {
  }
};

// A gradient in one array, which `owner` keeps alive.
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
