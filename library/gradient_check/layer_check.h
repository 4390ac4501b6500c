// The gradient check of a layer.
#ifndef TRIBUTARY_LIBRARY_GRADIENT_CHECK_LAYER_CHECK_H_
#define TRIBUTARY_LIBRARY_GRADIENT_CHECK_LAYER_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tributary/gradient_check.h"

namespace tributary {

// Checks the gradients of one layer. Holds all tensors of one call of the
// layer. Not thread-safe.
class LayerCheck {
 public:
  // `layer` and `options` must outlive this object.
  LayerCheck(const Layer& layer, const GradientCheckOptions& options);

  // Returns the result of CheckGradients. Call once.
  absl::Status Run();

 private:
  struct Gradients {
    std::vector<std::vector<float>> inputs, weights;
  };

  absl::Status CheckSpec() const;
  absl::Status CheckForward();
  absl::Status CheckReads(const Gradients& gradients);
  absl::Status Compare(const Gradients& gradients);
  void Forward();
  // `poison`: what Backward must not read is overwritten by NaN first.
  Gradients Backward(bool poison);
  bool HasGradient(size_t input) const { return input > 0 || !spec_.tokens; }
  float* WeightsOf(size_t parameter) { return &arena_[offsets_[parameter]]; }

  const Layer& layer_;
  const GradientCheckOptions& options_;
  const LayerSpec spec_;
  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  LayerCall call_;
  LayerTensors tensors_;
  std::vector<int32_t> tokens_;
  std::vector<std::vector<float>> inputs_;
  // All parameters, one after the other, because a layer may read several as
  // one matrix.
  std::vector<float> arena_;
  std::vector<int64_t> offsets_, sizes_;
  std::vector<float> constants_, output_, saved_, factors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_GRADIENT_CHECK_LAYER_CHECK_H_
