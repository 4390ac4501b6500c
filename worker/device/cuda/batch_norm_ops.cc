#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/batch_norm.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaBatchNormOps final : public BatchNormOps {
 public:
  explicit CudaBatchNormOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    BatchNormForward(context_->Current(), args.shape, As<T>(args.x), args.scale,
                     args.shift, As<T>(args.residual), As<T>(args.y), args.mean,
                     args.variance);
  }
  void Evaluate(const EvaluateArguments& args) override {
    BatchNormEvaluate(context_->Current(), args.shape, As<T>(args.x),
                      args.scale, args.shift, args.mean, args.variance,
                      As<T>(args.residual), As<T>(args.y));
  }
  void Backward(const BackwardArguments& args) override {
    BatchNormBackward(
        context_->Current(), args.shape, As<T>(args.x), args.scale, args.mean,
        args.variance, As<T>(args.y), As<T>(args.dy),
        {As<T>(args.dx), args.dscale, args.dshift, As<T>(args.dresidual)});
  }
  void StatisticsGradient(const StatisticsGradientArguments& args) override {
    BatchNormStatisticsGradient(
        context_->Current(), args.channels, args.observations,
        args.sample_count, {args.mean, args.variance},
        {args.running_mean, args.running_variance}, args.dmean, args.dvariance);
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaBatchNormOps<Bfloat16>>(context);
  }
  return std::make_unique<CudaBatchNormOps<float>>(context);
}

}  // namespace tributary::cuda
