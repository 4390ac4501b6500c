#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/attention.h"
#include "worker/device/cuda/kernels/attention_decode.h"

namespace tributary::cuda {
namespace {

// T is what Real stands for.
template <typename T>
class CudaAttentionOps final : public AttentionOps {
 public:
  explicit CudaAttentionOps(CudaContext* context) : context_(context) {}

  int64_t SavedElements(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void Forward(const ForwardArguments& args) override {
    AttentionForward(context_->Current(), args.shape, args.lengths,
                     As<T>(args.qkv),
                     {args.stream, context_->random_base(), args.rate},
                     As<T>(args.y), args.saved);
  }
  void Backward(const BackwardArguments& args) override {
    AttentionBackward(
        context_->Current(), context_->scratch(), args.shape, args.lengths,
        As<T>(args.qkv), As<T>(args.y), args.saved, As<T>(args.dy),
        {args.stream, context_->random_base(), args.rate}, As<T>(args.dqkv));
  }
  int64_t CacheElements(const CacheShape& s) const override {
    const int64_t bytes = 2 * s.heads * s.head_size * s.capacity *
                          static_cast<int64_t>(sizeof(T));
    const int64_t element = sizeof(float);
    return (bytes + element - 1) / element;
  }
  void Decode(const DecodeArguments& args) override {
    DecodeAttention(context_->Current(), {args.shape, args.past, args.count},
                    As<T>(args.qkv), reinterpret_cast<T*>(args.cache),
                    As<T>(args.y));
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<AttentionOps> CreateAttentionOps(Precision precision,
                                                 CudaContext* context) {
  return CreateOps<AttentionOps, CudaAttentionOps>(precision, context);
}

}  // namespace tributary::cuda
