#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/normalization.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaLayerNormOps final : public LayerNormOps {
 public:
  explicit CudaLayerNormOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    LayerNormForward(context_->Current(), args.rows, args.width, As<T>(args.x),
                     As<T>(args.branch), As<T>(args.sum), args.scale,
                     args.shift, args.epsilon, As<T>(args.y), args.mean,
                     args.inverse_deviation);
  }
  void Backward(const BackwardArguments& args) override {
    LayerNormBackward(
        context_->Current(), context_->scratch(), args.rows, args.width,
        As<T>(args.x), args.scale, args.mean, args.inverse_deviation,
        As<T>(args.dy),
        {args.accumulate, As<T>(args.dx), args.dscale, args.dshift});
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaLayerNormOps<Bfloat16>>(context);
  }
  return std::make_unique<CudaLayerNormOps<float>>(context);
}

}  // namespace tributary::cuda
