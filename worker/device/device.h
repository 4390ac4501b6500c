// The operations that layers are written in. CpuDevice is the reference; other
// devices implement the same set, and one conformance suite
// (tests/worker/device) runs every operation against float64.
//
// Conventions: tensors are dense and row-major in device memory, 64-byte
// aligned where they start a buffer. Those of type Real have the
// precision that the device was made with; all others, and all arithmetic but
// the factors of products, are float32. Outputs never alias inputs unless a
// comment allows it.
// "=" overwrites, "+=" adds to what is there. Operations are
// asynchronous on devices with a stream and ordered with one another; only
// Synchronize and the functions that return host values wait. Sizes have been
// checked by the layers when they were planned, so operations cannot fail.
//
// Determinism: the result of an operation depends on its arguments alone, never
// on other threads or instances.
#ifndef TRIBUTARY_WORKER_DEVICE_DEVICE_H_
#define TRIBUTARY_WORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/numerics/philox.h"
#include "worker/device/copy_stream.h"

namespace tributary {

// As in common/numerics/half.h, whose protocol buffers kernels do without.
enum ExchangeSpec_WireDtype : int;
using WireDtype = ExchangeSpec_WireDtype;

enum class Precision {
  kFloat32,
  kBfloat16,
  // What a device may be made with: as kFloat32, which it then says it has, but
  // that a GPU may round the factors of products and convolutions to TF32 (10
  // bits of fraction).
  kTf32,
};

// An element of an activation, of its gradient, or of a weight as matrix
// products read it: a float32 or a bfloat16 number, by Device::precision().
// Results become bfloat16 by rounding to the nearest, of two equally near to
// the one whose last bit is 0. Opaque: outside of devices only
// worker/device/reals.h looks inside.
struct Real;

// Y[rows, outputs] = X[rows, inputs] W^T + b, with W[outputs, inputs] as
// PyTorch's nn.Linear stores it.
struct LinearShape {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
};

// Images are [batch, channels, height, width] outside; a device may keep
// another layout between its own operations only where Network says so. Kernels
// are [out_channels, in_channels, kernel, kernel].
struct ConvolutionShape {
  int64_t batch = 0;
  int64_t in_channels = 0, in_height = 0, in_width = 0;
  int64_t out_channels = 0, out_height = 0, out_width = 0;
  int64_t kernel = 0, stride = 1, padding = 0;
};

struct PoolShape {
  int64_t batch = 0, channels = 0;
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  int64_t window = 0;  // Side of a window; a last incomplete one is left out.
  // Between windows; 0: as `window`. Padding is outside of the image, where no
  // maximum is. Both are for maximum pooling alone.
  int64_t stride = 0, padding = 0;

  int64_t Stride() const { return stride > 0 ? stride : window; }
};

// Images [batch, channels, pixels] whose channels are normalized.
struct BatchNormShape {
  int64_t batch = 0, channels = 0, pixels = 0;
  bool relu = false;  // The output is what max(., 0) makes of it.
};

struct AttentionShape {
  int64_t batch = 0, time = 0, heads = 0, head_size = 0;
};

// Added to (a, b) of random streams. constexpr, so that GPU code may call it.
struct RandomBase {
  uint32_t a = 0, b = 0;

  constexpr RandomStream Of(RandomStream stream) const {
    stream.a += a;
    stream.b += b;
    return stream;
  }
};

// Operations that a device was given once and may be given again, as one. Must
// not outlive the device.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// One lane of computing: its operations run in order, and it may be used by one
// thread at a time. Several instances may work at once and share nothing.
class Device {
 public:
  virtual ~Device() = default;

  // Of Real: kFloat32 or kBfloat16.
  virtual Precision precision() const = 0;
  int64_t real_bytes() const {
    return precision() == Precision::kBfloat16 ? 2 : 4;
  }

  // Memory of the device, zeroed, aligned to 64 bytes (huge pages where large);
  // freed with the handle, which must not outlive the device. ResourceExhausted
  // when there is none.
  using Memory = std::unique_ptr<void, void (*)(void*)>;
  virtual absl::StatusOr<Memory> Allocate(size_t bytes) = 0;
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from,
                          size_t bytes) = 0;  // Waits.
  virtual void Zero(float* to, int64_t count) = 0;
  virtual void Synchronize() = 0;

  // ---- Memory of its own, and copies beside the operations. The defaults are
  // those of a device that works in the host's memory, which needs neither.
  virtual bool has_own_memory() const { return false; }
  // How people know it: "cpu", or the GPU's name.
  virtual std::string name() const { return "cpu"; }
  // Where a GPU sits in its machine, as "0000:3b:00.0"; empty for others.
  virtual std::string bus_id() const { return ""; }
  // What is free now, in bytes; none if unknown.
  virtual std::optional<int64_t> AvailableMemoryBytes() const {
    return std::nullopt;
  }
  // Events and streams are of use with the device's own memory alone. They must
  // not outlive the device.
  virtual absl::StatusOr<std::unique_ptr<CopyStream>> CreateCopyStream();
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent();
  // Lets copies between this host memory and the device run without the host.
  // Whole pages, pinned for as long as the handle lives, which may be longer
  // than the device. Any thread. Null where that cannot be: copies work all the
  // same.
  virtual std::shared_ptr<void> PinHostMemory(void* /*memory*/,
                                              size_t /*bytes*/) {
    return nullptr;
  }
  // As CopyStream's, for the operations.
  virtual void Record(Event* /*event*/) {}
  virtual void Await(const Event& /*event*/) {}

  // ---- Captured work, on devices for which queuing operations one by one
  // takes time: they say so in captures(), and have all of these.
  virtual bool captures() const { return false; }
  // Until EndCapture, operations are not done but captured, with the places and
  // numbers they are given. All of them must have been done before with the
  // same sizes. Not among them: waits, events, allocation, copies from or to
  // the host, losses. An error if nothing can be captured: then operations are
  // done as ever, and EndCapture must not be called.
  virtual absl::Status BeginCapture();
  // Why they could not be captured, if so; they have not been done then,
  // either, and may be given again.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture();
  // Does what was captured, in its turn among the operations. False, and does
  // nothing, if memory of the device's own that it works in is not where it was
  // then: it must be captured anew.
  virtual bool Launch(const CapturedWork& /*work*/) { return false; }

  // Operations from now on, also those that have been captured before, add this
  // to the random streams that they were given. At first it is 0.
  virtual void SetRandomBase(const RandomBase& base) = 0;

  // to = from, rounded.
  virtual void Round(int64_t count, const float* from, Real* to) = 0;
  // y = x.
  virtual void Copy(int64_t count, const Real* x, Real* y) = 0;
  // y += x, for gradients that meet.
  virtual void Add(int64_t count, const Real* x, Real* y) = 0;

  // ---- Nodes of the reduction tree, with the bits of common/numerics/half.h.
  // sum = rounded x.
  virtual void KeepNode(WireDtype dtype, int64_t count, const float* x,
                        float* sum) = 0;
  // sum = rounded (sum + rounded x); `sum` is rounded already.
  virtual void AddToNode(WireDtype dtype, int64_t count, const float* x,
                         float* sum) = 0;

  // ---- Linear. `bias` may be null.
  virtual void LinearForward(const LinearShape& shape, const Real* x,
                             const Real* weight, const float* bias,
                             Real* y) = 0;
  // dx = dy W; with `accumulate`, dx += dy W.
  virtual void LinearBackwardInput(const LinearShape& shape, const Real* dy,
                                   const Real* weight, bool accumulate,
                                   Real* dx) = 0;
  // dweight = dy^T X (+= with `accumulate`); dbias = column sums of dy, unless
  // null.
  virtual void LinearBackwardWeight(const LinearShape& shape, const Real* x,
                                    const Real* dy, bool accumulate,
                                    float* dweight, float* dbias) = 0;

  // LinearForward to `z` and GELU of that (see below) to `y`, and the way back:
  // dz = (dy W) GELU'(z), where W is that of the linear function behind GELU.
  // What lies between need not be rounded. The defaults do one after the other.
  virtual void LinearGeluForward(const LinearShape& shape, const Real* x,
                                 const Real* weight, const float* bias, Real* z,
                                 Real* y);
  virtual void LinearGeluBackwardInput(const LinearShape& shape, const Real* dy,
                                       const Real* weight, const Real* z,
                                       Real* dz);

  // ---- Convolution, pooling. A bias may be added to rounded sums.
  virtual void ConvolutionForward(const ConvolutionShape& shape, const Real* x,
                                  const Real* weight, const float* bias,
                                  Real* y) = 0;
  virtual void ConvolutionBackwardInput(const ConvolutionShape& shape,
                                        const Real* dy, const Real* weight,
                                        Real* dx) = 0;
  virtual void ConvolutionBackwardWeight(const ConvolutionShape& shape,
                                         const Real* x, const Real* dy,
                                         float* dweight, float* dbias) = 0;
  // `argmax`, [batch, channels, out_height, out_width], gets the place of the
  // first maximum within its input plane. Where windows overlap, an element's
  // gradient is the sum over the windows, in their order.
  virtual void MaxPoolForward(const PoolShape& shape, const Real* x, Real* y,
                              int32_t* argmax) = 0;
  virtual void MaxPoolBackward(const PoolShape& shape, const Real* dy,
                               const int32_t* argmax, Real* dx) = 0;
  virtual void AveragePoolForward(const PoolShape& shape, const Real* x,
                                  Real* y) = 0;
  virtual void AveragePoolBackward(const PoolShape& shape, const Real* dy,
                                   Real* dx) = 0;
  // y[plane] = mean of x[plane, pixels].
  virtual void GlobalAveragePoolForward(int64_t planes, int64_t pixels,
                                        const Real* x, Real* y) = 0;
  virtual void GlobalAveragePoolBackward(int64_t planes, int64_t pixels,
                                         const Real* dy, Real* dx) = 0;

  // ---- Element by element. In all of these y may be x, and dx may be dy. NaN
  // stays NaN, so that a training that has diverged shows it.
  virtual void ReluForward(int64_t count, const Real* x, Real* y) = 0;
  // dx = dy where y > 0, else 0.
  virtual void ReluBackward(int64_t count, const Real* y, const Real* dy,
                            Real* dx) = 0;
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  virtual void GeluForward(int64_t count, const Real* x, Real* y) = 0;
  virtual void GeluBackward(int64_t count, const Real* x, const Real* dy,
                            Real* dx) = 0;
  // y = x / (1 - rate) where UniformFloat(number i of the stream) >= rate, else
  // 0. Its own backward.
  virtual void Dropout(int64_t count, const RandomStream& stream, float rate,
                       const Real* x, Real* y) = 0;

  // ---- Layer norm over the last dimension: y = (x - mean) / sqrt(variance +
  // 1e-5) * scale + shift (`shift` may be null). `mean` and
  // `inverse_deviation`, [rows], are kept for backward.
  virtual void LayerNormForward(int64_t rows, int64_t width, const Real* x,
                                const float* scale, const float* shift, Real* y,
                                float* mean, float* inverse_deviation) = 0;
  // dx += ... with `accumulate`; dscale and dshift (may be null) are
  // overwritten.
  virtual void LayerNormBackward(int64_t rows, int64_t width, const Real* x,
                                 const float* scale, const float* mean,
                                 const float* inverse_deviation, const Real* dy,
                                 bool accumulate, Real* dx, float* dscale,
                                 float* dshift) = 0;

  // ---- Batch norm of each channel:
  //   y = (x - mean) / sqrt(variance + 1e-5) * scale + shift + residual,
  // then max(y, 0) with shape.relu. x, y, residual: [batch, channels, pixels];
  // the others: [channels]. `residual` may be null, for 0.
  //
  // Forward takes mean and (biased) variance over the batch and its pixels and
  // writes them. Evaluate is given them; a variance below 0 counts as 0.
  virtual void BatchNormForward(const BatchNormShape& shape, const Real* x,
                                const float* scale, const float* shift,
                                const Real* residual, Real* y, float* mean,
                                float* variance) = 0;
  virtual void BatchNormEvaluate(const BatchNormShape& shape, const Real* x,
                                 const float* scale, const float* shift,
                                 const float* mean, const float* variance,
                                 const Real* residual, Real* y) = 0;
  // Of Forward, whose output `y` is needed with shape.relu alone (else it may
  // be null). dx may be dy; dresidual may be null: not wanted.
  virtual void BatchNormBackward(const BatchNormShape& shape, const Real* x,
                                 const float* scale, const float* mean,
                                 const float* variance, const Real* y,
                                 const Real* dy, Real* dx, float* dscale,
                                 float* dshift, Real* dresidual) = 0;
  // dmean = weight (running_mean - mean), and so for the variance, from which
  // the bias is taken with `observations`, batch times pixels, above 1.
  virtual void BatchNormStatisticsGradient(
      int64_t channels, int64_t observations, int64_t sample_count,
      const float* mean, const float* variance, const float* running_mean,
      const float* running_variance, float* dmean, float* dvariance) = 0;

  // ---- Embedding. y[b, t, :] = token_table[tokens[b, t], :] +
  // position_table[t, :].
  virtual void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                                const int32_t* tokens, const float* token_table,
                                const float* position_table, Real* y) = 0;
  // dtoken_table (vocabulary rows) += the rows of dy, in order of (b, t), after
  // being zeroed unless `accumulate`; dposition_table[0, time) = sums over b;
  // rows from `time` on are the caller's.
  virtual void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                                 int64_t vocabulary, const int32_t* tokens,
                                 const Real* dy, bool accumulate,
                                 float* dtoken_table,
                                 float* dposition_table) = 0;

  // ---- Causal multi-head attention. qkv, [batch, time, 3, heads, head_size];
  // y, [batch, time, heads, head_size]; scores are divided by sqrt(head_size).
  // `saved` holds SavedAttentionSize(shape) floats from forward to backward
  // (the probabilities, or their logarithmic sums). With rate > 0 the
  // probabilities are dropped out by `stream`: element
  // ((b * heads + h) * time + i) * time + j.
  virtual int64_t SavedAttentionSize(const AttentionShape& shape) const = 0;
  virtual void AttentionForward(const AttentionShape& shape, const Real* qkv,
                                const RandomStream& stream, float rate, Real* y,
                                float* saved) = 0;
  virtual void AttentionBackward(const AttentionShape& shape, const Real* qkv,
                                 const Real* y, const float* saved,
                                 const Real* dy, const RandomStream& stream,
                                 float rate, Real* dqkv) = 0;

  // ---- Losses. AwaitLoss returns the values of the one that was begun last,
  // once: it waits for that, not for operations behind it. `dlogits` (may be
  // null: no gradient; may be logits) gets the gradient of the sum of the
  // losses. Sums over rows are made in float64, in order.
  struct Loss {
    double sum = 0;
    int64_t correct = 0;
    int64_t counted = 0;  // Rows that count.
  };
  // Rows with a label of -1 do not count: they add nothing, and their gradient
  // is zero.
  virtual void BeginSoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                        const Real* logits,
                                        const int32_t* labels,
                                        Real* dlogits) = 0;
  // Per row: mean over `width` of (x - target)^2.
  virtual void BeginMeanSquaredError(int64_t rows, int64_t width, const Real* x,
                                     const float* target, Real* dx) = 0;
  virtual Loss AwaitLoss() = 0;

  // Both in one.
  Loss SoftmaxCrossEntropy(int64_t rows, int64_t classes, const Real* logits,
                           const int32_t* labels, Real* dlogits) {
    BeginSoftmaxCrossEntropy(rows, classes, logits, labels, dlogits);
    return AwaitLoss();
  }
  Loss MeanSquaredError(int64_t rows, int64_t width, const Real* x,
                        const float* target, Real* dx) {
    BeginMeanSquaredError(rows, width, x, target, dx);
    return AwaitLoss();
  }
};

inline void Device::LinearGeluForward(const LinearShape& shape, const Real* x,
                                      const Real* weight, const float* bias,
                                      Real* z, Real* y) {
  LinearForward(shape, x, weight, bias, z);
  GeluForward(shape.rows * shape.outputs, z, y);
}

inline void Device::LinearGeluBackwardInput(const LinearShape& shape,
                                            const Real* dy, const Real* weight,
                                            const Real* z, Real* dz) {
  LinearBackwardInput(shape, dy, weight, /*accumulate=*/false, dz);
  GeluBackward(shape.rows * shape.inputs, z, dz, dz);
}

inline absl::StatusOr<std::unique_ptr<CopyStream>> Device::CreateCopyStream() {
  return absl::UnimplementedError("device memory is the host's");
}

inline absl::StatusOr<std::unique_ptr<Event>> Device::CreateEvent() {
  return absl::UnimplementedError("device memory is the host's");
}

inline absl::Status Device::BeginCapture() {
  return absl::UnimplementedError("the device captures nothing");
}

inline absl::StatusOr<std::unique_ptr<CapturedWork>> Device::EndCapture() {
  return absl::UnimplementedError("the device captures nothing");
}

// Plain and vectorized code for any x86-64, single-threaded. kTf32 is kFloat32.
std::unique_ptr<Device> CreateCpuDevice(
    Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_DEVICE_H_
