#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/embedding.h"

namespace tributary::cpu {
namespace {

class Float32EmbeddingOps final : public EmbeddingOps {
 public:
  void Forward(const ForwardArguments& args) override {
    EmbeddingForward(args.batch, args.time, args.width, args.tokens,
                     args.token_table, args.position_table, args.accumulate,
                     AsFloats(args.y));
  }
  void Backward(const BackwardArguments& args) override {
    EmbeddingBackward(args.batch, args.time, args.width, args.vocabulary,
                      args.tokens, AsFloats(args.dy), args.accumulate,
                      args.dtoken_table, args.dposition_table);
  }
};

class Bfloat16EmbeddingOps final : public EmbeddingOps {
 public:
  explicit Bfloat16EmbeddingOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const int64_t size = args.time * args.width;
    for (int64_t b = 0; b < args.batch; ++b) {
      float* out = args.accumulate
                       ? Read(context_, 0, size, AsHalves(args.y) + b * size)
                       : Room(context_, 0, size);
      EmbeddingForward(1, args.time, args.width, args.tokens + b * args.time,
                       args.token_table, args.position_table, args.accumulate,
                       out);
      Narrow(size, out, AsHalves(args.y) + b * size);
    }
  }
  void Backward(const BackwardArguments& args) override {
    EmbeddingBackward(args.batch, args.time, args.width, args.vocabulary,
                      args.tokens,
                      Read(context_, 0, args.batch * args.time * args.width,
                           AsHalves(args.dy)),
                      args.accumulate, args.dtoken_table, args.dposition_table);
  }

 private:
  Context* const context_;
};

}  // namespace

std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32EmbeddingOps>();
  }
  return std::make_unique<Bfloat16EmbeddingOps>(context);
}

}  // namespace tributary::cpu
