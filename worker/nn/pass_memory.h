// The memory of one micro-batch in a network.
#ifndef TRIBUTARY_WORKER_NN_PASS_MEMORY_H_
#define TRIBUTARY_WORKER_NN_PASS_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/network_structure.h"
#include "worker/nn/weight_copies.h"

namespace tributary {

// Owns the device memory for one micro-batch, except for what the passes of a
// network share; copies samples into it, and finds the tensors of layers. Not
// thread-safe.
class PassMemory {
 public:
  // Which tensors of a layer: those of forward in training, those of forward in
  // evaluation, or those that backward reads, and that forward writes when it
  // is computed again.
  enum class Places { kForward, kEvaluation, kBackward };

  // Allocates the memory, and writes the layers' constants to it. See
  // NetworkPass::Create for the arguments, which must outlive this object.
  static absl::StatusOr<PassMemory> Create(const NetworkStructure* structure,
                                           Device* device, DeviceInputs* inputs,
                                           WeightCopies* copies, void* shared);

  // Returns the tensor at a place of the plan, or null if `place` is -1.
  void* At(int64_t place) const;
  Real* RealAt(int64_t place) const { return static_cast<Real*>(At(place)); }
  // Copies the samples and, if there are any, the targets of a micro-batch into
  // the memory, and rounds the samples to the device's number format if needed.
  // Copies only what the part of the network reads.
  void CopyIn(const MicroBatchInput& input) const;
  // Returns the addresses of a layer's tensors, except for gradients.
  LayerTensors TensorsOf(int layer, Places places, const float* weights) const;
  // Sets the addresses of the gradients of the layer's parameters, which are in
  // the arena `gradients`.
  void SetWeightGradients(int layer, float* gradients,
                          LayerTensors* tensors) const;

 private:
  PassMemory(const NetworkStructure* structure, Device* device,
             DeviceInputs* inputs, WeightCopies* copies, Device::Memory memory,
             void* shared);

  float* FloatAt(int64_t place) const { return static_cast<float*>(At(place)); }
  // Does the work of CopyIn on devices with their own memory: queues the copy
  // of the micro-batch from the device buffers of inputs_. The transfer of the
  // micro-batch into these buffers must have been started.
  void TakePrefetched(const MicroBatchInput& input) const;

  const NetworkStructure* structure_;
  Device* device_;
  DeviceInputs* inputs_;
  WeightCopies* copies_;
  Device::Memory memory_;
  char* shared_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_PASS_MEMORY_H_
