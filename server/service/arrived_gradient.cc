#include "server/service/arrived_gradient.h"

#include <cstdint>
#include <utility>

namespace tributary {
namespace {

class ReceivedGradient final : public GradientSource {
 public:
  explicit ReceivedGradient(ReceivedFloats floats)
      : floats_(std::move(floats)) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    floats_.Read(begin, count, scratch);
    return scratch;
  }
  bool sparse() const override { return floats_.sparse(); }
  void Add(int64_t begin, int64_t count, float* sum) const override {
    floats_.AddPart(begin, count, sum);
  }

 private:
  const ReceivedFloats floats_;
};

class RoundedGradient final : public GradientSource {
 public:
  RoundedGradient(const float* values, WireDtype dtype,
                  std::shared_ptr<const void> owner)
      : values_(values), dtype_(dtype), owner_(std::move(owner)) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    RoundedCopy(dtype_, values_ + begin, scratch, count);
    return scratch;
  }
  const float* InOnePiece() const override { return values_; }

 private:
  const float* const values_;
  const WireDtype dtype_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace

std::shared_ptr<const GradientSource> GradientFromWire(ReceivedFloats floats) {
  return std::make_shared<ReceivedGradient>(std::move(floats));
}

std::shared_ptr<const GradientSource> GradientAt(
    const float* values, WireDtype dtype, std::shared_ptr<const void> owner) {
  if (dtype == ExchangeSpec::FLOAT32) {
    return std::make_shared<GradientInMemory>(values, std::move(owner));
  }
  return std::make_shared<RoundedGradient>(values, dtype, std::move(owner));
}

}  // namespace tributary
