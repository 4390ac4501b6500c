#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/attention.h"
#include "worker/device/cpu/kernels/decode_attention.h"

namespace tributary::cpu {
namespace {

// T is what Real stands for. In bfloat16, processes one sequence at a time.
template <typename T>
class CpuAttentionOps final : public AttentionOps {
 public:
  explicit CpuAttentionOps(Context* context) : context_(context) {}

  int64_t SavedElements(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void Forward(const ForwardArguments& args) override {
    ForSequences(args.shape, [&](const Sequences& s) {
      float* const out = Room<T>(context_, 1, s.size, args.y, s.begin);
      AttentionForward(s.shape, s.first,
                       Read<T>(context_, 0, 3 * s.size, args.qkv, 3 * s.begin),
                       context_->random_base.Of(args.stream), args.rate,
                       LengthsFrom(args.lengths, s.first), context_->scratch,
                       out, args.saved + s.saved);
      Write<T>(s.size, out, args.y, s.begin);
    });
  }
  void Backward(const BackwardArguments& args) override {
    ForSequences(args.shape, [&](const Sequences& s) {
      float* const out =
          Room<T>(context_, 3, 3 * s.size, args.dqkv, 3 * s.begin);
      AttentionBackward(
          s.shape, s.first,
          Read<T>(context_, 0, 3 * s.size, args.qkv, 3 * s.begin),
          Read<T>(context_, 1, s.size, args.y, s.begin), args.saved + s.saved,
          Read<T>(context_, 2, s.size, args.dy, s.begin),
          context_->random_base.Of(args.stream), args.rate,
          LengthsFrom(args.lengths, s.first), context_->scratch, out);
      Write<T>(3 * s.size, out, args.dqkv, 3 * s.begin);
    });
  }
  int64_t CacheElements(const CacheShape& shape) const override {
    return AttentionCacheElements(shape);
  }
  // The cache holds keys and values in float32.
  void Decode(const DecodeArguments& args) override {
    const int64_t size = args.count * args.shape.heads * args.shape.head_size;
    float* const out = Room<T>(context_, 1, size, args.y);
    DecodeAttention(args.shape, args.past, args.count,
                    Read<T>(context_, 0, 3 * size, args.qkv), args.cache,
                    context_->scratch, out);
    Write<T>(size, out, args.y);
  }

 private:
  // Some sequences of a batch, from sequence `first` on. Their outputs are
  // `size` elements from element `begin` on, and what is saved for them begins
  // at element `saved`.
  struct Sequences {
    AttentionShape shape;
    int64_t first, begin, size, saved;
  };
  template <typename Run>
  void ForSequences(AttentionShape shape, const Run& run) {
    const int64_t size = shape.time * shape.heads * shape.head_size;
    InBlocks<T>(shape.batch, size, size, [&](int64_t first, int64_t n) {
      shape.batch = n;
      run({shape, first, first * size, n * size,
           first * shape.heads * shape.time});
    });
  }
  static const int32_t* LengthsFrom(const int32_t* lengths, int64_t first) {
    return lengths == nullptr ? nullptr : lengths + first;
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<AttentionOps> CreateAttentionOps(Precision precision,
                                                 Context* context) {
  return CreateOps<AttentionOps, CpuAttentionOps>(precision, context);
}

}  // namespace tributary::cpu
