// Operations that layers are implemented with. CpuDevice is the reference.
// Other devices implement the same operations, and one conformance suite
// (tests/worker/device) compares every operation with float64.
//
// Conventions: tensors are dense and row-major in device memory; the start of a
// buffer is 64-byte aligned. Tensors of type Real have the device's precision.
// All others, and all arithmetic except the operands of products, are float32.
// Outputs never alias inputs unless a comment permits it. "=" overwrites, "+="
// adds to the previous value. On devices with a stream, operations are
// asynchronous and run in order; only Synchronize and the functions that return
// host values block. Layers validate all sizes when they are planned, so
// operations cannot fail.
//
// Determinism: the result of an operation depends only on its arguments, never
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

// Declared as in common/numerics/half.h, so that kernels do not depend on
// protocol buffers.
enum ExchangeSpec_WireDtype : int;
using WireDtype = ExchangeSpec_WireDtype;

enum class Precision {
  kFloat32,
  kBfloat16,
  // For creating devices only: such a device reports kFloat32, but a GPU may
  // round the operands of products and convolutions to TF32 (10 fraction bits).
  kTf32,
};

// An element of an activation, of its gradient, or of a weight as an operand of
// products: float32 or bfloat16, according to Device::precision(). Results are
// converted to bfloat16 by rounding to nearest, ties to even. Opaque: only
// devices and worker/device/reals.h access the representation.
struct Real;

// Y[rows, outputs] = X[rows, inputs] W^T + b, with W[outputs, inputs] as
// PyTorch's nn.Linear stores it.
struct LinearShape {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
};

// Images are [batch, channels, height, width] outside the device. A device may
// keep another layout between its own operations only where Network permits it.
// Kernels are [out_channels, in_channels, kernel, kernel].
struct ConvolutionShape {
  int64_t batch = 0;
  int64_t in_channels = 0, in_height = 0, in_width = 0;
  int64_t out_channels = 0, out_height = 0, out_width = 0;
  int64_t kernel = 0, stride = 1, padding = 0;
};

struct PoolShape {
  int64_t batch = 0, channels = 0;
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  // Side of a window. An incomplete last window is dropped.
  int64_t window = 0;
  // `stride` is the distance between windows; 0 stands for `window`. Padding
  // never contains a maximum. Both apply to max pooling only.
  int64_t stride = 0, padding = 0;

  int64_t Stride() const { return stride > 0 ? stride : window; }
};

// Images [batch, channels, pixels], normalized per channel.
struct BatchNormShape {
  int64_t batch = 0, channels = 0, pixels = 0;
  bool relu = false;  // Apply max(., 0) to the output.
};

struct AttentionShape {
  int64_t batch = 0, time = 0, heads = 0, head_size = 0;
};

// Offset added to (a, b) of random streams. constexpr, so that GPU code may
// call it.
struct RandomBase {
  uint32_t a = 0, b = 0;

  constexpr RandomStream Of(RandomStream stream) const {
    stream.a += a;
    stream.b += b;
    return stream;
  }
};

// Recorded operations that can be launched repeatedly as one. Must not outlive
// the device.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// Executes operations in order. Not thread-safe, but may move between threads.
// Instances may work concurrently and share nothing.
class Device {
 public:
  virtual ~Device() = default;

  // Returns the precision of Real: kFloat32 or kBfloat16.
  virtual Precision precision() const = 0;
  int64_t real_bytes() const {
    return precision() == Precision::kBfloat16 ? 2 : 4;
  }

  // Allocates zeroed device memory, aligned to 64 bytes (huge pages for large
  // sizes). The handle frees it and must not outlive the device. Returns
  // ResourceExhausted if memory does not suffice.
  using Memory = std::unique_ptr<void, void (*)(void*)>;
  virtual absl::StatusOr<Memory> Allocate(size_t bytes) = 0;
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from,
                          size_t bytes) = 0;  // Blocks.
  virtual void Zero(float* to, int64_t count) = 0;
  virtual void Synchronize() = 0;

  // ---- Device memory and concurrent copies. The defaults suit a device that
  // works in host memory, which needs neither.
  virtual bool has_own_memory() const { return false; }
  // Returns a name for display: "cpu", or the GPU's name.
  virtual std::string name() const { return "cpu"; }
  // Returns the PCI address of a GPU, such as "0000:3b:00.0". Empty for other
  // devices.
  virtual std::string bus_id() const { return ""; }
  // Returns the bytes currently free, or nullopt if unknown.
  virtual std::optional<int64_t> AvailableMemoryBytes() const {
    return std::nullopt;
  }
  // Create streams and events, which require device memory. They must not
  // outlive the device.
  virtual absl::StatusOr<std::unique_ptr<CopyStream>> CreateCopyStream();
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent();
  // Pins host memory, so that copies to and from the device run without the
  // host. The memory must consist of whole pages. It stays pinned while the
  // handle exists, which may outlive the device. Thread-safe. Returns null if
  // pinning fails; copies still work.
  virtual std::shared_ptr<void> PinHostMemory(void* /*memory*/,
                                              size_t /*bytes*/) {
    return nullptr;
  }
  // Like CopyStream's functions, for the device's operations.
  virtual void Record(Event* /*event*/) {}
  virtual void Await(const Event& /*event*/) {}

  // ---- Captured work, for devices on which queuing operations one by one
  // takes time. If captures() is true, all of the following are implemented.
  virtual bool captures() const { return false; }
  // Captures the following operations, with their addresses and arguments,
  // until EndCapture instead of running them. Each must have run before with
  // the same sizes. Excluded are waits, events, allocation, copies from or to
  // the host, and losses. On an error operations run as usual, and EndCapture
  // must not be called.
  virtual absl::Status BeginCapture();
  // Returns the captured operations, or the reason why they could not be
  // captured. In neither case have they run, so they may be queued again.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture();
  // Queues the captured operations. Returns false, without any effect, if
  // internal memory that they use has moved; they must then be captured again.
  virtual bool Launch(const CapturedWork& /*work*/) { return false; }

  // Sets an offset, initially 0, for the random streams of all operations
  // queued from now on, including captured ones.
  virtual void SetRandomBase(const RandomBase& base) = 0;

  // to = from, rounded.
  virtual void Round(int64_t count, const float* from, Real* to) = 0;
  // y = x.
  virtual void Copy(int64_t count, const Real* x, Real* y) = 0;
  // y += x, for gradients of a value with several consumers.
  virtual void Add(int64_t count, const Real* x, Real* y) = 0;

  // ---- Nodes of the reduction tree, bit-identical to common/numerics/half.h.
  // sum = rounded x.
  virtual void KeepNode(WireDtype dtype, int64_t count, const float* x,
                        float* sum) = 0;
  // sum = rounded (sum + rounded x). `sum` must already be rounded.
  virtual void AddToNode(WireDtype dtype, int64_t count, const float* x,
                         float* sum) = 0;

  // ---- Linear layers. `bias` may be null.
  virtual void LinearForward(const LinearShape& shape, const Real* x,
                             const Real* weight, const float* bias,
                             Real* y) = 0;
  // dx = dy W, or dx += dy W with `accumulate`.
  virtual void LinearBackwardInput(const LinearShape& shape, const Real* dy,
                                   const Real* weight, bool accumulate,
                                   Real* dx) = 0;
  // dweight = dy^T X (+= with `accumulate`); dbias = column sums of dy, unless
  // null.
  virtual void LinearBackwardWeight(const LinearShape& shape, const Real* x,
                                    const Real* dy, bool accumulate,
                                    float* dweight, float* dbias) = 0;

  // Forward: z = X W^T + b, y = GELU(z) (see below). Backward: dz = (dy W)
  // GELU'(z), where W belongs to the linear layer after GELU. Intermediate
  // values need not be rounded. The defaults run two operations.
  virtual void LinearGeluForward(const LinearShape& shape, const Real* x,
                                 const Real* weight, const float* bias, Real* z,
                                 Real* y);
  virtual void LinearGeluBackwardInput(const LinearShape& shape, const Real* dy,
                                       const Real* weight, const Real* z,
                                       Real* dz);

  // ---- Convolution and pooling. A bias may be added to rounded sums.
  virtual void ConvolutionForward(const ConvolutionShape& shape, const Real* x,
                                  const Real* weight, const float* bias,
                                  Real* y) = 0;
  virtual void ConvolutionBackwardInput(const ConvolutionShape& shape,
                                        const Real* dy, const Real* weight,
                                        Real* dx) = 0;
  virtual void ConvolutionBackwardWeight(const ConvolutionShape& shape,
                                         const Real* x, const Real* dy,
                                         float* dweight, float* dbias) = 0;
  // `argmax`, [batch, channels, out_height, out_width], receives the position
  // of the first maximum within its input plane. Where windows overlap, an
  // element's gradient is the sum over the windows, in their order.
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

  // ---- Element-wise operations. In all of these y may be x, and dx may be dy.
  // NaN stays NaN, so that divergence is visible.
  virtual void ReluForward(int64_t count, const Real* x, Real* y) = 0;
  // dx = dy where y > 0, else 0.
  virtual void ReluBackward(int64_t count, const Real* y, const Real* dy,
                            Real* dx) = 0;
  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  virtual void GeluForward(int64_t count, const Real* x, Real* y) = 0;
  virtual void GeluBackward(int64_t count, const Real* x, const Real* dy,
                            Real* dx) = 0;
  // y = x / (1 - rate) where UniformFloat(number i of the stream) >= rate, else
  // 0. Also computes the gradient.
  virtual void Dropout(int64_t count, const RandomStream& stream, float rate,
                       const Real* x, Real* y) = 0;

  // ---- Layer norm over the last dimension: y = (x - mean) / sqrt(variance +
  // 1e-5) * scale + shift (`shift` may be null). `mean` and
  // `inverse_deviation`, [rows], are saved for backward.
  virtual void LayerNormForward(int64_t rows, int64_t width, const Real* x,
                                const float* scale, const float* shift, Real* y,
                                float* mean, float* inverse_deviation) = 0;
  // dx += ... with `accumulate`. dscale and dshift (may be null) are
  // overwritten.
  virtual void LayerNormBackward(int64_t rows, int64_t width, const Real* x,
                                 const float* scale, const float* mean,
                                 const float* inverse_deviation, const Real* dy,
                                 bool accumulate, Real* dx, float* dscale,
                                 float* dshift) = 0;

  // ---- Batch norm of each channel:
  //   y = (x - mean) / sqrt(variance + 1e-5) * scale + shift + residual,
  // then max(y, 0) with shape.relu. x, y, residual: [batch, channels, pixels];
  // all others: [channels]. `residual` may be null, which stands for 0.
  //
  // Forward computes mean and (biased) variance over the batch and its pixels
  // and writes them. Evaluate receives them; a variance below 0 counts as 0.
  virtual void BatchNormForward(const BatchNormShape& shape, const Real* x,
                                const float* scale, const float* shift,
                                const Real* residual, Real* y, float* mean,
                                float* variance) = 0;
  virtual void BatchNormEvaluate(const BatchNormShape& shape, const Real* x,
                                 const float* scale, const float* shift,
                                 const float* mean, const float* variance,
                                 const Real* residual, Real* y) = 0;
  // Computes the gradients of Forward. Its output `y` is read only with
  // shape.relu and may be null otherwise. dx may be dy. dresidual may be null,
  // which skips it.
  virtual void BatchNormBackward(const BatchNormShape& shape, const Real* x,
                                 const float* scale, const float* mean,
                                 const float* variance, const Real* y,
                                 const Real* dy, Real* dx, float* dscale,
                                 float* dshift, Real* dresidual) = 0;
  // dmean = sample_count (running_mean - mean). dvariance is defined likewise,
  // from the unbiased variance if `observations`, batch times pixels, is above
  // 1.
  virtual void BatchNormStatisticsGradient(
      int64_t channels, int64_t observations, int64_t sample_count,
      const float* mean, const float* variance, const float* running_mean,
      const float* running_variance, float* dmean, float* dvariance) = 0;

  // ---- Embedding.
  // y[b, t, :] = token_table[tokens[b, t], :] + position_table[t, :].
  virtual void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                                const int32_t* tokens, const float* token_table,
                                const float* position_table, Real* y) = 0;
  // dtoken_table (vocabulary rows) += the rows of dy, in order of (b, t), after
  // being zeroed unless `accumulate`. dposition_table[0, time) = sums over b;
  // rows from `time` on are left to the caller.
  virtual void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                                 int64_t vocabulary, const int32_t* tokens,
                                 const Real* dy, bool accumulate,
                                 float* dtoken_table,
                                 float* dposition_table) = 0;

  // ---- Causal multi-head attention. qkv, [batch, time, 3, heads, head_size];
  // y, [batch, time, heads, head_size]; scores are divided by sqrt(head_size).
  // `saved` holds SavedAttentionSize(shape) floats from forward to backward
  // (the probabilities, or the logarithms of their sums). With rate > 0 dropout
  // applies to the probabilities, using element ((b * heads + h) * time + i) *
  // time + j of `stream`.
  virtual int64_t SavedAttentionSize(const AttentionShape& shape) const = 0;
  virtual void AttentionForward(const AttentionShape& shape, const Real* qkv,
                                const RandomStream& stream, float rate, Real* y,
                                float* saved) = 0;
  virtual void AttentionBackward(const AttentionShape& shape, const Real* qkv,
                                 const Real* y, const float* saved,
                                 const Real* dy, const RandomStream& stream,
                                 float rate, Real* dqkv) = 0;

  // ---- Losses. AwaitLoss returns the values of the last loss begun and may be
  // called once for each. It waits for that loss only, not for later
  // operations. `dlogits` receives the gradient of the sum of the losses; it
  // may be null or `logits`. Sums over rows are computed in float64, in order.
  struct Loss {
    double sum = 0;
    int64_t correct = 0;
    int64_t counted = 0;  // Number of rows that count.
  };
  // Rows with a label of -1 do not count: their loss and gradient are zero.
  virtual void BeginSoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                        const Real* logits,
                                        const int32_t* labels,
                                        Real* dlogits) = 0;
  // Per row: mean over `width` of (x - target)^2.
  virtual void BeginMeanSquaredError(int64_t rows, int64_t width, const Real* x,
                                     const float* target, Real* dx) = 0;
  virtual Loss AwaitLoss() = 0;

  // Begin a loss and wait for it.
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
  return absl::UnimplementedError("the device works in host memory");
}

inline absl::StatusOr<std::unique_ptr<Event>> Device::CreateEvent() {
  return absl::UnimplementedError("the device works in host memory");
}

inline absl::Status Device::BeginCapture() {
  return absl::UnimplementedError("the device does not capture operations");
}

inline absl::StatusOr<std::unique_ptr<CapturedWork>> Device::EndCapture() {
  return absl::UnimplementedError("the device does not capture operations");
}

// Creates a single-threaded CPU device for any x86-64 processor. Treats kTf32
// as kFloat32.
std::unique_ptr<Device> CreateCpuDevice(
    Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_DEVICE_H_
