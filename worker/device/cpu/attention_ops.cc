#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/attention.h"
#include "worker/device/cpu/kernels/decode_attention.h"

namespace tributary::cpu {
namespace {

class Float32AttentionOps : public AttentionOps {
 public:
  explicit Float32AttentionOps(Context* context) : context_(context) {}

  int64_t SavedElements(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void Forward(const ForwardArguments& args) override {
    AttentionForward(args.shape, /*first_sequence=*/0, AsFloats(args.qkv),
                     context_->random_base.Of(args.stream), args.rate,
                     args.lengths, context_->scratch, AsFloats(args.y),
                     args.saved);
  }
  void Backward(const BackwardArguments& args) override {
    AttentionBackward(args.shape, /*first_sequence=*/0, AsFloats(args.qkv),
                      AsFloats(args.y), args.saved, AsFloats(args.dy),
                      context_->random_base.Of(args.stream), args.rate,
                      args.lengths, context_->scratch, AsFloats(args.dqkv));
  }
  int64_t CacheElements(const CacheShape& shape) const override {
    return AttentionCacheElements(shape);
  }
  void Decode(const DecodeArguments& args) override {
    DecodeAttention(args.shape, args.past, args.count, AsFloats(args.qkv),
                    args.cache, context_->scratch, AsFloats(args.y));
  }

 protected:
  Context* const context_;
};

// Processes one sequence at a time.
class Bfloat16AttentionOps final : public Float32AttentionOps {
 public:
  using Float32AttentionOps::Float32AttentionOps;

  void Forward(const ForwardArguments& args) override {
    const auto [one, size] = OneOf(args.shape);
    float* out = Room(context_, 1, size);
    for (int64_t b = 0; b < args.shape.batch; ++b) {
      AttentionForward(
          one, b,
          Read(context_, 0, 3 * size, AsHalves(args.qkv) + 3 * b * size),
          context_->random_base.Of(args.stream), args.rate,
          LengthOf(args.lengths, b), context_->scratch, out,
          args.saved + b * SavedElements(one));
      Narrow(size, out, AsHalves(args.y) + b * size);
    }
  }
  void Backward(const BackwardArguments& args) override {
    const auto [one, size] = OneOf(args.shape);
    float* out = Room(context_, 3, 3 * size);
    for (int64_t b = 0; b < args.shape.batch; ++b) {
      AttentionBackward(
          one, b,
          Read(context_, 0, 3 * size, AsHalves(args.qkv) + 3 * b * size),
          Read(context_, 1, size, AsHalves(args.y) + b * size),
          args.saved + b * SavedElements(one),
          Read(context_, 2, size, AsHalves(args.dy) + b * size),
          context_->random_base.Of(args.stream), args.rate,
          LengthOf(args.lengths, b), context_->scratch, out);
      Narrow(3 * size, out, AsHalves(args.dqkv) + 3 * b * size);
    }
  }
  // The cache holds keys and values in float32.
  void Decode(const DecodeArguments& args) override {
    const int64_t size = args.count * args.shape.heads * args.shape.head_size;
    float* out = Room(context_, 1, size);
    DecodeAttention(args.shape, args.past, args.count,
                    Read(context_, 0, 3 * size, AsHalves(args.qkv)), args.cache,
                    context_->scratch, out);
    Narrow(size, out, AsHalves(args.y));
  }

 private:
  struct Sequence {
    AttentionShape shape;
    int64_t size;  // Number of elements of its output.
  };
  static const int32_t* LengthOf(const int32_t* lengths, int64_t b) {
    return lengths == nullptr ? nullptr : lengths + b;
  }
  static Sequence OneOf(AttentionShape shape) {
    shape.batch = 1;
    return {shape, shape.time * shape.heads * shape.head_size};
  }
};

}  // namespace

std::unique_ptr<AttentionOps> CreateAttentionOps(Precision precision,
                                                 Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32AttentionOps>(context);
  }
  return std::make_unique<Bfloat16AttentionOps>(context);
}

}  // namespace tributary::cpu
