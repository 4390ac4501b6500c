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

}  // namespace

std::shared_ptr<const GradientSource> GradientFromWire(ReceivedFloats floats) {
  return std::make_shared<ReceivedGradient>(std::move(floats));
}

}  // namespace tributary
