// Products use oneDNN on processors that multiply bfloat16. All other
// operations convert their inputs to float32, compute, and round their outputs.
// Where the formula permits, they process one block at a time, which stays in
// the cache.
#include "worker/device/cpu/bfloat16_cpu_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "worker/device/cpu/bfloat16_products.h"
#include "worker/device/cpu/kernels/attention.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/cpu/products/bfloat16.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using cpu::Bfloat16;

// Number of elements in a block, such that three float32 tensors fit into the
// first-level cache beside the bfloat16 data.
constexpr int64_t kBlock = 2048;
// Block size for operations that pass over their block several times; fits into
// the second-level cache.
constexpr int64_t kLargeBlock = 16384;

const Bfloat16* Typed(const Real* x) {
  return reinterpret_cast<const Bfloat16*>(x);
}
Bfloat16* Typed(Real* x) { return reinterpret_cast<Bfloat16*>(x); }

// Calls run(first, number) for consecutive groups of the `count` items, of
// `size` elements each.
template <typename Run>
void InBlocks(int64_t count, int64_t size, int64_t block, const Run& run) {
  const int64_t step = std::max<int64_t>(1, block / size);
  for (int64_t first = 0; first < count; first += step) {
    run(first, std::min(step, count - first));
  }
}

class Bfloat16CpuDevice final : public Device {
 public:
  explicit Bfloat16CpuDevice(std::unique_ptr<Device> float32)
      : float32_(std::move(float32)),
        products_(CreateBfloat16Products(float32_.get())) {}

  Precision precision() const override { return Precision::kBfloat16; }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return float32_->Allocate(bytes);
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    float32_->CopyFromHost(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, size_t bytes) override {
    float32_->CopyToHost(to, from, bytes);
  }
  void Zero(float* to, int64_t count) override { float32_->Zero(to, count); }
  void Synchronize() override {}

  void Round(int64_t count, const float* from, Real* to) override {
    cpu::Narrow(count, from, Typed(to));
  }
  void Copy(int64_t count, const Real* x, Real* y) override {
    std::memcpy(y, x, count * sizeof(Bfloat16));
  }
  void Add(int64_t count, const Real* x, Real* y) override {
    InBlocks(count, 1, kBlock, [&](int64_t first, int64_t n) {
      float* sum = Read(1, n, Typed(y) + first);
      cpu::Add(n, Read(0, n, Typed(x) + first), sum);
      cpu::Narrow(n, sum, Typed(y) + first);
    });
  }
  void KeepNode(WireDtype dtype, int64_t count, const float* x,
                float* sum) override {
    float32_->KeepNode(dtype, count, x, sum);
  }
  void AddToNode(WireDtype dtype, int64_t count, const float* x,
                 float* sum) override {
    float32_->AddToNode(dtype, count, x, sum);
  }

  void LinearForward(const LinearShape& s, const Real* x, const Real* weight,
                     const float* bias, Real* y) override {
    products_->LinearForward(s, x, weight, bias, y);
  }
  void LinearBackwardInput(const LinearShape& s, const Real* dy,
                           const Real* weight, bool accumulate,
                           Real* dx) override {
    products_->LinearBackwardInput(s, dy, weight, accumulate, dx);
  }
  void LinearBackwardWeight(const LinearShape& s, const Real* x, const Real* dy,
                            bool accumulate, float* dweight,
                            float* dbias) override {
    products_->LinearBackwardWeight(s, x, dy, accumulate, dweight, dbias);
  }
  void ConvolutionForward(const ConvolutionShape& s, const Real* x,
                          const Real* weight, const float* bias,
                          Real* y) override {
    products_->ConvolutionForward(s, x, weight, bias, y);
  }
  void ConvolutionBackwardInput(const ConvolutionShape& s, const Real* dy,
                                const Real* weight, Real* dx) override {
    products_->ConvolutionBackwardInput(s, dy, weight, dx);
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& s, const Real* x,
                                 const Real* dy, float* dweight,
                                 float* dbias) override {
    products_->ConvolutionBackwardWeight(s, x, dy, dweight, dbias);
  }

  void MaxPoolForward(const PoolShape& shape, const Real* x, Real* y,
                      int32_t* argmax) override {
    ForPlanes(shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(1, out.size);
      float32_->MaxPoolForward(s,
                               AsReals(Read(0, in.size, Typed(x) + in.first)),
                               AsReals(result), argmax + out.first);
      cpu::Narrow(out.size, result, Typed(y) + out.first);
    });
  }
  void MaxPoolBackward(const PoolShape& shape, const Real* dy,
                       const int32_t* argmax, Real* dx) override {
    ForPlanes(shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(1, in.size);
      float32_->MaxPoolBackward(
          s, AsReals(Read(0, out.size, Typed(dy) + out.first)),
          argmax + out.first, AsReals(result));
      cpu::Narrow(in.size, result, Typed(dx) + in.first);
    });
  }
  void AveragePoolForward(const PoolShape& shape, const Real* x,
                          Real* y) override {
    ForPlanes(shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(1, out.size);
      float32_->AveragePoolForward(
          s, AsReals(Read(0, in.size, Typed(x) + in.first)), AsReals(result));
      cpu::Narrow(out.size, result, Typed(y) + out.first);
    });
  }
  void AveragePoolBackward(const PoolShape& shape, const Real* dy,
                           Real* dx) override {
    ForPlanes(shape, [&](const PoolShape& s, Planes in, Planes out) {
      float* result = Room(1, in.size);
      float32_->AveragePoolBackward(
          s, AsReals(Read(0, out.size, Typed(dy) + out.first)),
          AsReals(result));
      cpu::Narrow(in.size, result, Typed(dx) + in.first);
    });
  }
  void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const Real* x,
                                Real* y) override {
    InBlocks(planes, pixels, kBlock, [&](int64_t first, int64_t n) {
      float* result = Room(1, n);
      float32_->GlobalAveragePoolForward(
          n, pixels, AsReals(Read(0, n * pixels, Typed(x) + first * pixels)),
          AsReals(result));
      cpu::Narrow(n, result, Typed(y) + first);
    });
  }
  void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const Real* dy,
                                 Real* dx) override {
    InBlocks(planes, pixels, kBlock, [&](int64_t first, int64_t n) {
      float* result = Room(1, n * pixels);
      float32_->GlobalAveragePoolBackward(
          n, pixels, AsReals(Read(0, n, Typed(dy) + first)), AsReals(result));
      cpu::Narrow(n * pixels, result, Typed(dx) + first * pixels);
    });
  }

  void ReluForward(int64_t count, const Real* x, Real* y) override {
    Map(count, x, y, [](int64_t, int64_t n, float* values) {
      cpu::ReluForward(n, values, values);
    });
  }
  void ReluBackward(int64_t count, const Real* y, const Real* dy,
                    Real* dx) override {
    Map(count, dy, dx, [&](int64_t first, int64_t n, float* gradient) {
      cpu::ReluBackward(n, Read(1, n, Typed(y) + first), gradient, gradient);
    });
  }
  void GeluForward(int64_t count, const Real* x, Real* y) override {
    Map(count, x, y, [](int64_t, int64_t n, float* values) {
      cpu::GeluForward(n, values, values);
    });
  }
  void GeluBackward(int64_t count, const Real* x, const Real* dy,
                    Real* dx) override {
    Map(count, dy, dx, [&](int64_t first, int64_t n, float* gradient) {
      cpu::GeluBackward(n, Read(1, n, Typed(x) + first), gradient, gradient);
    });
  }
  void SetRandomBase(const RandomBase& base) override { random_base_ = base; }

  void Dropout(int64_t count, const RandomStream& stream, float rate,
               const Real* x, Real* y) override {
    const RandomStream numbers = random_base_.Of(stream);
    Map(count, x, y, [&](int64_t first, int64_t n, float* values) {
      cpu::Dropout(n, numbers, first, rate, values, values);
    });
  }

  void LayerNormForward(int64_t rows, int64_t width, const Real* x,
                        const float* scale, const float* shift, Real* y,
                        float* mean, float* inverse_deviation) override {
    InBlocks(rows, width, kBlock, [&](int64_t first, int64_t n) {
      float* out = Room(1, n * width);
      float32_->LayerNormForward(
          n, width, AsReals(Read(0, n * width, Typed(x) + first * width)),
          scale, shift, AsReals(out), mean + first, inverse_deviation + first);
      cpu::Narrow(n * width, out, Typed(y) + first * width);
    });
  }
  void LayerNormBackward(int64_t rows, int64_t width, const Real* x,
                         const float* scale, const float* mean,
                         const float* inverse_deviation, const Real* dy,
                         bool accumulate, Real* dx, float* dscale,
                         float* dshift) override {
    // The first block writes the sums, later blocks add to them.
    float* sums = Room(3, 2 * width);
    InBlocks(rows, width, kLargeBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const bool adds = first > 0;
      float* scale_sum = adds ? sums : dscale;
      float* shift_sum = dshift != nullptr && adds ? sums + width : dshift;
      float* out =
          accumulate ? Read(2, size, Typed(dx) + begin) : Room(2, size);
      float32_->LayerNormBackward(
          n, width, AsReals(Read(0, size, Typed(x) + begin)), scale,
          mean + first, inverse_deviation + first,
          AsReals(Read(1, size, Typed(dy) + begin)), accumulate, AsReals(out),
          scale_sum, shift_sum);
      cpu::Narrow(size, out, Typed(dx) + begin);
      if (!adds) return;
      cpu::Add(width, scale_sum, dscale);
      if (dshift != nullptr) cpu::Add(width, shift_sum, dshift);
    });
  }

  void BatchNormForward(const BatchNormShape& shape, const Real* x,
                        const float* scale, const float* shift,
                        const Real* residual, Real* y, float* mean,
                        float* variance) override {
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = Room(2, Size(s));
      float32_->BatchNormForward(s, Gather(0, shape, s, c, x), scale + c,
                                 shift + c, Gather(1, shape, s, c, residual),
                                 AsReals(out), mean + c, variance + c);
      Scatter(shape, s, c, out, y);
    });
  }
  void BatchNormEvaluate(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* shift,
                         const float* mean, const float* variance,
                         const Real* residual, Real* y) override {
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = Room(2, Size(s));
      float32_->BatchNormEvaluate(
          s, Gather(0, shape, s, c, x), scale + c, shift + c, mean + c,
          variance + c, Gather(1, shape, s, c, residual), AsReals(out));
      Scatter(shape, s, c, out, y);
    });
  }
  void BatchNormBackward(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* mean,
                         const float* variance, const Real* y, const Real* dy,
                         Real* dx, float* dscale, float* dshift,
                         Real* dresidual) override {
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = Room(3, Size(s));
      float* residual = dresidual == nullptr ? nullptr : Room(4, Size(s));
      float32_->BatchNormBackward(
          s, Gather(0, shape, s, c, x), scale + c, mean + c, variance + c,
          Gather(1, shape, s, c, shape.relu ? y : nullptr),
          Gather(2, shape, s, c, dy), AsReals(out), dscale + c, dshift + c,
          AsReals(residual));
      Scatter(shape, s, c, out, dx);
      if (residual != nullptr) Scatter(shape, s, c, residual, dresidual);
    });
  }
  void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                   int64_t sample_count, const float* mean,
                                   const float* variance,
                                   const float* running_mean,
                                   const float* running_variance, float* dmean,
                                   float* dvariance) override {
    float32_->BatchNormStatisticsGradient(channels, observations, sample_count,
                                          mean, variance, running_mean,
                                          running_variance, dmean, dvariance);
  }

  void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                        const int32_t* tokens, const float* token_table,
                        const float* position_table, Real* y) override {
    const int64_t size = time * width;
    float* out = Room(0, size);
    for (int64_t b = 0; b < batch; ++b) {
      float32_->EmbeddingForward(1, time, width, tokens + b * time, token_table,
                                 position_table, AsReals(out));
      cpu::Narrow(size, out, Typed(y) + b * size);
    }
  }
  void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                         int64_t vocabulary, const int32_t* tokens,
                         const Real* dy, bool accumulate, float* dtoken_table,
                         float* dposition_table) override {
    float32_->EmbeddingBackward(
        batch, time, width, vocabulary, tokens,
        AsReals(Read(0, batch * time * width, Typed(dy))), accumulate,
        dtoken_table, dposition_table);
  }

  int64_t SavedAttentionSize(const AttentionShape& s) const override {
    return float32_->SavedAttentionSize(s);
  }
  void AttentionForward(const AttentionShape& shape, const Real* qkv,
                        const RandomStream& stream, float rate, Real* y,
                        float* saved) override {
    const int64_t size = shape.time * shape.heads * shape.head_size;
    AttentionShape one = shape;
    one.batch = 1;
    float* out = Room(1, size);
    for (int64_t b = 0; b < shape.batch; ++b) {
      cpu::AttentionForward(one, b,
                            Read(0, 3 * size, Typed(qkv) + 3 * b * size),
                            random_base_.Of(stream), rate, scratch_, out,
                            saved + b * SavedAttentionSize(one));
      cpu::Narrow(size, out, Typed(y) + b * size);
    }
  }
  void AttentionBackward(const AttentionShape& shape, const Real* qkv,
                         const Real* y, const float* saved, const Real* dy,
                         const RandomStream& stream, float rate,
                         Real* dqkv) override {
    const int64_t size = shape.time * shape.heads * shape.head_size;
    AttentionShape one = shape;
    one.batch = 1;
    float* out = Room(3, 3 * size);
    for (int64_t b = 0; b < shape.batch; ++b) {
      cpu::AttentionBackward(one, b,
                             Read(0, 3 * size, Typed(qkv) + 3 * b * size),
                             Read(1, size, Typed(y) + b * size),
                             saved + b * SavedAttentionSize(one),
                             Read(2, size, Typed(dy) + b * size),
                             random_base_.Of(stream), rate, scratch_, out);
      cpu::Narrow(3 * size, out, Typed(dqkv) + 3 * b * size);
    }
  }

  void BeginSoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                const Real* logits, const int32_t* labels,
                                Real* dlogits) override {
    loss_ = SumOverRows(rows, classes, logits, dlogits,
                        [&](int64_t first, int64_t n, float* x, bool gradient) {
                          return float32_->SoftmaxCrossEntropy(
                              n, classes, AsReals(x), labels + first,
                              gradient ? AsReals(x) : nullptr);
                        });
  }
  void BeginMeanSquaredError(int64_t rows, int64_t width, const Real* x,
                             const float* target, Real* dx) override {
    loss_ = SumOverRows(
        rows, width, x, dx,
        [&](int64_t first, int64_t n, float* values, bool gradient) {
          return float32_->MeanSquaredError(
              n, width, AsReals(values), target + first * width,
              gradient ? AsReals(values) : nullptr);
        });
  }
  Loss AwaitLoss() override { return loss_; }

 private:
  static constexpr int kSlots = 5;

  // Returns room for `count` floats. Each slot holds one tensor at a time.
  float* Room(int slot, int64_t count) { return slots_[slot].Floats(count); }
  // Like Room, filled with the numbers at `from`.
  float* Read(int slot, int64_t count, const Bfloat16* from) {
    float* to = Room(slot, count);
    cpu::Widen(count, from, to);
    return to;
  }

  // Sets y to the result of running `run` on x in place, in slot 0.
  template <typename Run>
  void Map(int64_t count, const Real* x, Real* y, const Run& run) {
    InBlocks(count, 1, kBlock, [&](int64_t first, int64_t n) {
      float* values = Read(0, n, Typed(x) + first);
      run(first, n, values);
      cpu::Narrow(n, values, Typed(y) + first);
    });
  }

  // Returns the loss of all rows. Writes each block's gradient over its input.
  template <typename Run>
  Loss SumOverRows(int64_t rows, int64_t width, const Real* x, Real* dx,
                   const Run& run) {
    Loss loss;
    InBlocks(rows, width, kBlock, [&](int64_t first, int64_t n) {
      float* values = Read(0, n * width, Typed(x) + first * width);
      const Loss part = run(first, n, values, dx != nullptr);
      loss.sum += part.sum;
      loss.correct += part.correct;
      loss.counted += part.counted;
      if (dx == nullptr) return;
      cpu::Narrow(n * width, values, Typed(dx) + first * width);
    });
    return loss;
  }

  // The elements of a range of planes.
  struct Planes {
    int64_t first, size;
  };
  // Calls run(shape, input planes, output planes) for groups of planes, because
  // pooling processes planes independently.
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

  // Calls run(shape of a group of channels, first channel).
  template <typename Run>
  static void ForChannels(const BatchNormShape& shape, const Run& run) {
    InBlocks(shape.channels, shape.batch * shape.pixels, kLargeBlock,
             [&](int64_t first, int64_t n) {
               BatchNormShape group = shape;
               group.channels = n;
               run(group, first);
             });
  }
  static int64_t Size(const BatchNormShape& s) {
    return s.batch * s.channels * s.pixels;
  }
  // Returns the channels of `group`, starting at channel `first`, of all
  // images. Null yields null.
  const Real* Gather(int slot, const BatchNormShape& shape,
                     const BatchNormShape& group, int64_t first,
                     const Real* x) {
    if (x == nullptr) return nullptr;
    float* to = Room(slot, Size(group));
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      cpu::Widen(run, Typed(x) + (n * shape.channels + first) * shape.pixels,
                 to + n * run);
    }
    return AsReals(to);
  }
  static void Scatter(const BatchNormShape& shape, const BatchNormShape& group,
                      int64_t first, const float* from, Real* y) {
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      cpu::Narrow(run, from + n * run,
                  Typed(y) + (n * shape.channels + first) * shape.pixels);
    }
  }

  const std::unique_ptr<Device> float32_;
  const std::unique_ptr<Bfloat16Products> products_;
  std::array<cpu::Scratch, kSlots> slots_;
  cpu::Scratch scratch_;  // Scratch memory of operations.
  RandomBase random_base_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<Device> CreateBfloat16CpuDevice(
    std::unique_ptr<Device> float32) {
  return std::make_unique<Bfloat16CpuDevice>(std::move(float32));
}

}  // namespace tributary
