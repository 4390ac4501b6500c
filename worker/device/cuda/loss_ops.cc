#include <utility>

#include "common/base/status_macros.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/loss.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaLossOps final : public LossOps {
 public:
  CudaLossOps(CudaContext* context, std::unique_ptr<CudaEvent> computed)
      : context_(context),
        computed_(std::move(computed)),
        runner_(&context->Current(), context->growths_counter()) {}

  void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) override {
    Stream& stream = context_->Current();
    runner_.SoftmaxCrossEntropy(
        stream, args.rows, args.classes, As<T>(args.logits), args.labels,
        As<T>(args.dlogits), args.smoothing, args.padding);
    computed_->RecordOn(stream);
  }
  void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) override {
    Stream& stream = context_->Current();
    runner_.MeanSquaredError(stream, args.rows, args.width, As<T>(args.x),
                             args.target, As<T>(args.dx));
    computed_->RecordOn(stream);
  }
  void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) override {
    Stream& stream = context_->Current();
    runner_.BinaryCrossEntropy(stream, args.rows, As<T>(args.logits),
                               args.labels, As<T>(args.dlogits));
    computed_->RecordOn(stream);
  }
  absl::StatusOr<Loss> Await() override {
    const Stream& stream = context_->Current();
    TRIBUTARY_RETURN_IF_ERROR(computed_->Wait());
    TRIBUTARY_RETURN_IF_ERROR(stream.status());
    return runner_.Sum();
  }

 private:
  CudaContext* const context_;
  const std::unique_ptr<CudaEvent> computed_;
  LossRunner runner_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LossOps>> CreateLossOps(Precision precision,
                                                       CudaContext* context) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<CudaEvent> computed,
                             CudaEvent::Create(context->ordinal()));
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaLossOps<Bfloat16>>(context,
                                                   std::move(computed));
  }
  return std::make_unique<CudaLossOps<float>>(context, std::move(computed));
}

}  // namespace tributary::cuda
