#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/embedding.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaEmbeddingOps final : public EmbeddingOps {
 public:
  explicit CudaEmbeddingOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    EmbeddingForward(context_->Current(), args.batch, args.time, args.width,
                     args.tokens, args.token_table, args.position_table,
                     args.accumulate, As<T>(args.y));
  }
  void Backward(const BackwardArguments& args) override {
    EmbeddingBackward(
        context_->Current(), context_->scratch(), args.batch, args.time,
        args.width, args.vocabulary, args.tokens, As<T>(args.dy),
        {args.accumulate, args.dtoken_table, args.dposition_table});
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaEmbeddingOps<Bfloat16>>(context);
  }
  return std::make_unique<CudaEmbeddingOps<float>>(context);
}

}  // namespace tributary::cuda
