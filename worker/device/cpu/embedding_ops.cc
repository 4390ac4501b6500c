#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/elementwise.h"

namespace tributary::cpu {
namespace {

TRIBUTARY_MULTIVERSION
void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                      const int32_t* tokens, const float* token_table,
                      const float* position_table, bool accumulate, float* y) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      const float* token = token_table + tokens[b * time + t] * width;
      float* out = y + (b * time + t) * width;
      for (int64_t c = 0; c < width; ++c) {
        out[c] = accumulate ? out[c] + token[c] : token[c];
      }
      if (position_table == nullptr) continue;
      const float* position = position_table + t * width;
      for (int64_t c = 0; c < width; ++c) out[c] += position[c];
    }
  }
}

void EmbeddingBackward(const EmbeddingOps::BackwardArguments& args,
                       const float* dy) {
  const int64_t width = args.width, size = args.time * width;
  if (!args.accumulate) {
    std::memset(args.dtoken_table, 0, args.vocabulary * width * sizeof(float));
  }
  if (args.dposition_table != nullptr) {
    std::memcpy(args.dposition_table, dy, size * sizeof(float));
    for (int64_t b = 1; b < args.batch; ++b) {
      Add(size, dy + b * size, args.dposition_table);
    }
  }
  for (int64_t i = 0; i < args.batch * args.time; ++i) {
    Add(width, dy + i * width, args.dtoken_table + args.tokens[i] * width);
  }
}

// T is what Real stands for.
template <typename T>
class CpuEmbeddingOps final : public EmbeddingOps {
 public:
  explicit CpuEmbeddingOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const int64_t size = args.time * args.width;
    InBlocks<T>(args.batch, size, size, [&](int64_t first, int64_t n) {
      float* const out =
          args.accumulate
              ? Read<T>(context_, 0, n * size, args.y, first * size)
              : Room<T>(context_, 0, n * size, args.y, first * size);
      EmbeddingForward(n, args.time, args.width,
                       args.tokens + first * args.time, args.token_table,
                       args.position_table, args.accumulate, out);
      Write<T>(n * size, out, args.y, first * size);
    });
  }
  void Backward(const BackwardArguments& args) override {
    EmbeddingBackward(
        args,
        Read<T>(context_, 0, args.batch * args.time * args.width, args.dy));
  }

 private:
  Context* const context_;
};

}  // namespace

std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 Context* context) {
  return CreateOps<EmbeddingOps, CpuEmbeddingOps>(precision, context);
}

}  // namespace tributary::cpu
