#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/pooling.h"

namespace tributary::cpu {
namespace {

class Float32PoolingOps final : public PoolingOps {
 public:
  explicit Float32PoolingOps(Context* context) : context_(context) {}

  void MaxForward(const MaxForwardArguments& args) override {
    MaxPoolForward(args.shape, AsFloats(args.x), context_->scratch,
                   AsFloats(args.y), args.argmax);
  }
  void MaxBackward(const MaxBackwardArguments& args) override {
    MaxPoolBackward(args.shape, AsFloats(args.dy), args.argmax,
                    context_->scratch, AsFloats(args.dx));
  }
  void AverageForward(const AverageForwardArguments& args) override {
    AveragePoolForward(args.shape, AsFloats(args.x), AsFloats(args.y));
  }
  void AverageBackward(const AverageBackwardArguments& args) override {
    AveragePoolBackward(args.shape, AsFloats(args.dy), AsFloats(args.dx));
  }
  void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) override {
    GlobalAveragePoolForward(args.planes, args.pixels, AsFloats(args.x),
                             AsFloats(args.y));
  }
  void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) override {
    GlobalAveragePoolBackward(args.planes, args.pixels, AsFloats(args.dy),
                              AsFloats(args.dx));
  }

 private:
  Context* const context_;
};

// Processes groups of planes, which are independent.
class Bfloat16PoolingOps final : public PoolingOps {
 public:
  explicit Bfloat16PoolingOps(Context* context) : context_(context) {}

  void MaxForward(const MaxForwardArguments& args) override {
    ForPlanes(args.shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(context_, 1, out.size);
      MaxPoolForward(s, Read(context_, 0, in.size, AsHalves(args.x) + in.first),
                     context_->scratch, result, args.argmax + out.first);
      Narrow(out.size, result, AsHalves(args.y) + out.first);
    });
  }
  void MaxBackward(const MaxBackwardArguments& args) override {
    ForPlanes(args.shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(context_, 1, in.size);
      MaxPoolBackward(
          s, Read(context_, 0, out.size, AsHalves(args.dy) + out.first),
          args.argmax + out.first, context_->scratch, result);
      Narrow(in.size, result, AsHalves(args.dx) + in.first);
    });
  }
  void AverageForward(const AverageForwardArguments& args) override {
    ForPlanes(args.shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(context_, 1, out.size);
      AveragePoolForward(
          s, Read(context_, 0, in.size, AsHalves(args.x) + in.first), result);
      Narrow(out.size, result, AsHalves(args.y) + out.first);
    });
  }
  void AverageBackward(const AverageBackwardArguments& args) override {
    ForPlanes(args.shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(context_, 1, in.size);
      AveragePoolBackward(
          s, Read(context_, 0, out.size, AsHalves(args.dy) + out.first),
          result);
      Narrow(in.size, result, AsHalves(args.dx) + in.first);
    });
  }
  void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) override {
    const int64_t pixels = args.pixels;
    InBlocks(args.planes, pixels, kBlock, [&](int64_t first, int64_t n) {
      float* result = Room(context_, 1, n);
      GlobalAveragePoolForward(
          n, pixels,
          Read(context_, 0, n * pixels, AsHalves(args.x) + first * pixels),
          result);
      Narrow(n, result, AsHalves(args.y) + first);
    });
  }
  void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) override {
    const int64_t pixels = args.pixels;
    InBlocks(args.planes, pixels, kBlock, [&](int64_t first, int64_t n) {
      float* result = Room(context_, 1, n * pixels);
      GlobalAveragePoolBackward(
          n, pixels, Read(context_, 0, n, AsHalves(args.dy) + first), result);
      Narrow(n * pixels, result, AsHalves(args.dx) + first * pixels);
    });
  }

 private:
  // The elements of a range of planes.
  struct Planes {
    int64_t first, size;
  };
  // Calls run(shape, input planes, output planes) for groups of planes.
  template <typename Run>
  static void ForPlanes(const PoolShape& shape, const Run& run) {
    const int64_t in = shape.in_height * shape.in_width;
    const int64_t out = shape.out_height * shape.out_width;
    InBlocks(
        shape.batch * shape.channels, in, kLargeBlock,
        [&](int64_t first, int64_t n) {
          PoolShape group = shape;
          group.batch = 1;
          group.channels = n;
          run(group, Planes{first * in, n * in}, Planes{first * out, n * out});
        });
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32PoolingOps>(context);
  }
  return std::make_unique<Bfloat16PoolingOps>(context);
}

}  // namespace tributary::cpu
