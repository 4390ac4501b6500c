// Device for CPUs. Its operations are the groups of cpu_ops.h.
#include <cstring>
#include <memory>

#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/memory.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

Operations CreateOperations(Precision precision, cpu::Context* context) {
  Operations ops;
  ops.elementwise = cpu::CreateElementwiseOps(precision, context);
  ops.linear = cpu::CreateLinearOps(precision, context, ops.elementwise.get());
  ops.convolution = cpu::CreateConvolutionOps(precision, context);
  ops.pooling = cpu::CreatePoolingOps(precision, context);
  ops.layer_norm = cpu::CreateLayerNormOps(precision, context);
  ops.batch_norm = cpu::CreateBatchNormOps(precision, context);
  ops.embedding = cpu::CreateEmbeddingOps(precision, context);
  ops.interaction = cpu::CreateInteractionOps(precision, context);
  ops.attention = cpu::CreateAttentionOps(precision, context);
  ops.loss = cpu::CreateLossOps(precision, context);
  ops.node_sum = cpu::CreateNodeSumOps();
  return ops;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Precision precision)
      : Device({&ops_}),
        precision_(precision),
        ops_(CreateOperations(precision, &context_)) {}

  Precision precision() const override { return precision_; }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return cpu::AllocateHostMemory(bytes);
  }
  int64_t workspace_bytes() const override {
    int64_t bytes = context_.scratch.bytes();
    for (const cpu::Scratch& slot : context_.slots) bytes += slot.bytes();
    return bytes;
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  void Zero(float* to, int64_t count) override {
    if (count > 0) std::memset(to, 0, count * sizeof(float));
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  void SetRandomBase(const RandomBase& base) override {
    context_.random_base = base;
  }

 private:
  const Precision precision_;
  cpu::Context context_;
  const Operations ops_;
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(Precision precision) {
  return std::make_unique<CpuDevice>(precision == Precision::kBfloat16
                                         ? Precision::kBfloat16
                                         : Precision::kFloat32);
}

}  // namespace tributary
