#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/pooling.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaPoolingOps final : public PoolingOps {
 public:
  explicit CudaPoolingOps(CudaContext* context) : context_(context) {}

  void MaxForward(const MaxForwardArguments& args) override {
    MaxPoolForward(context_->Current(), args.shape, As<T>(args.x),
                   As<T>(args.y), args.argmax);
  }
  void MaxBackward(const MaxBackwardArguments& args) override {
    MaxPoolBackward(context_->Current(), args.shape, As<T>(args.dy),
                    args.argmax, As<T>(args.dx));
  }
  void AverageForward(const AverageForwardArguments& args) override {
    AveragePoolForward(context_->Current(), args.shape, As<T>(args.x),
                       As<T>(args.y));
  }
  void AverageBackward(const AverageBackwardArguments& args) override {
    AveragePoolBackward(context_->Current(), args.shape, As<T>(args.dy),
                        As<T>(args.dx));
  }
  void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) override {
    GlobalAveragePoolForward(context_->Current(), args.planes, args.pixels,
                             As<T>(args.x), As<T>(args.y));
  }
  void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) override {
    GlobalAveragePoolBackward(context_->Current(), args.planes, args.pixels,
                              As<T>(args.dy), As<T>(args.dx));
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaPoolingOps<Bfloat16>>(context);
  }
  return std::make_unique<CudaPoolingOps<float>>(context);
}

}  // namespace tributary::cuda
