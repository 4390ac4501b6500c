// The gradient of a contribution (the gradient sum of one chunk that a worker
// sends), as it is kept until it is summed: an array in the memory of the host
// or of a GPU, or a received message that is decoded when it is read.
#ifndef TRIBUTARY_COMMON_UPDATE_AGGREGATION_GRADIENT_SOURCE_H_
#define TRIBUTARY_COMMON_UPDATE_AGGREGATION_GRADIENT_SOURCE_H_

#include <cstdint>
#include <utility>

#include "common/numerics/half.h"
#include "common/parameters/memory_view.h"

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
  // exchange.wire_dtype that Read does. Empty if there is no such array. Its
  // place is the host, or the device that runs the passes (see DeviceShare).
  const MemoryView& memory() const { return memory_; }

  // Returns true if most elements usually are 0, so that Add takes less time
  // than Read.
  virtual bool sparse() const { return false; }
  // Adds element begin + i to sum[i], for each i < count. Skips elements that
  // are 0. Call it only if sparse() is true.
  virtual void Add(int64_t /*begin*/, int64_t /*count*/, float* /*sum*/) const {
  }

 protected:
  explicit GradientSource(MemoryView memory = MemoryView())
      : memory_(std::move(memory)) {}

 private:
  const MemoryView memory_;
};

// A gradient in one array of host memory, which does not change. Rounds
// elements to `dtype` (the job's exchange.wire_dtype) when they are read,
// because workers do not round the gradients of single micro-batches in shared
// memory.
class GradientInMemory final : public GradientSource {
 public:
  explicit GradientInMemory(MemoryView memory,
                            WireDtype dtype = ExchangeSpec::FLOAT32)
      : GradientSource(std::move(memory)), dtype_(dtype) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    const float* const values = memory().values + begin;
    if (dtype_ == ExchangeSpec::FLOAT32) return values;
    RoundedCopy(dtype_, values, scratch, count);
    return scratch;
  }

 private:
  const WireDtype dtype_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_AGGREGATION_GRADIENT_SOURCE_H_
