// The gradient of a contribution that a server has received as a message.
#ifndef TRIBUTARY_SERVER_SERVICE_RECEIVED_GRADIENT_H_
#define TRIBUTARY_SERVER_SERVICE_RECEIVED_GRADIENT_H_

#include <cstdint>
#include <utility>

#include "common/stream/received_floats.h"
#include "common/update/aggregation/gradient_source.h"

namespace tributary {

// Keeps the received payload, and decodes elements when they are read.
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

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_RECEIVED_GRADIENT_H_
