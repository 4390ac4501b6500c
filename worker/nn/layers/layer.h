// Layer interface: a differentiable function with parameters, implemented only
// with operations of Device, so that one class serves every kind of device.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/numerics/philox.h"
#include "common/parameters/parameter_group.h"
#include "worker/device/device.h"
#include "worker/nn/layers/initializer.h"

namespace tributary {

// Maximum number of inputs and of parameters of a layer. Fixed, so that running
// a layer needs no dynamic lists.
inline constexpr int kMaxLayerInputs = 2;
inline constexpr int kMaxLayerParameters = 4;

struct ParameterSpec {
  std::string name;  // Name within the layer, such as "weight".
  std::vector<int64_t> shape;
  ParameterGroup group = ParameterGroup::kDecay;
  Initializer initializer;
  // Number of elements behind the parameter that the layer reads and to whose
  // gradient it writes zeros; see ParameterTable.
  int64_t padding = 0;
};

// Properties of a layer that the graph and the memory plan depend on.
struct LayerSpec {
  std::vector<int64_t> inputs;  // Number of elements of each input, per sample.
  bool tokens = false;          // Input 0 is int32_t, not Real.
  int64_t output = 0;           // Number of elements of the output, per sample.
  std::vector<ParameterSpec> parameters;
  // Constants that Forward reads from LayerTensors::constants.
  std::vector<float> constants;

  // Parameter 0 is an operand of matrix products, read from
  // LayerTensors::product_weight.
  bool product_weight = false;

  // Tensors of the forward pass that Backward reads.
  bool backward_reads_input = false;
  bool backward_reads_output = false;
  // Input whose memory Forward may use for the output; -1 if none.
  int in_place_input = -1;
  // Backward accepts the same memory for the gradients of input 0 and of the
  // output.
  bool gradient_in_place = false;
  // The gradient of each input equals that of the output: Backward does nothing
  // if both are the same memory.
  bool passes_gradient = false;
  // Backward can add to the gradients of its inputs instead of overwriting
  // them.
  bool accumulates = false;
  // Backward can add to the gradient of parameter 0, so the parameter may be
  // shared.
  bool accumulates_weight = false;
  // The layer computes GELU of its input.
  bool is_gelu = false;
  // Forward can also compute GELU of the output (LayerTensors::gelu_output),
  // and Backward can also compute the gradient of a GELU that produced the
  // input (LayerTensors::gelu_input).
  bool fuses_gelu = false;
  // The layer accesses tensors with loops of its own (HostFloats) instead of
  // operations: it works only on CPU devices with Precision::kFloat32.
  bool host_floats = false;
  // Outside training the output is the input, and Forward is not called.
  bool identity_in_evaluation = false;
};

// Addresses of the tensors of one call, in device memory. The elements of a
// sample are contiguous: [samples, elements per sample].
struct LayerTensors {
  std::array<const Real*, kMaxLayerInputs> inputs{};
  std::array<const float*, kMaxLayerParameters> weights{};
  // weights[0] in the device's precision. Set with LayerSpec::product_weight.
  const Real* product_weight = nullptr;
  const float* constants = nullptr;  // LayerSpec::constants, or null.
  Real* output = nullptr;
  float* saved = nullptr;  // Preserved from Forward to Backward.
  // Unless null, receives GELU of the output.
  Real* gelu_output = nullptr;

  // Backward only. A null input gradient is not computed.
  const Real* output_gradient = nullptr;
  std::array<Real*, kMaxLayerInputs> input_gradients{};
  std::array<bool, kMaxLayerInputs> accumulate{};
  std::array<float*, kMaxLayerParameters> weight_gradients{};
  // Unless null, input 0 is GELU of this tensor, and Backward computes the
  // gradient of this tensor instead of the input's.
  const Real* gelu_input = nullptr;
  // The gradient of parameter 0 already holds another layer's part: add to it.
  bool accumulate_weight = false;
};

struct LayerCall {
  Device* device = nullptr;
  int64_t samples = 0;  // At least 1.
  bool training = false;
  // Backward only: number of samples (tokens) of the micro-batch that count,
  // that is, whose label is not -1. It is the weight of the micro-batch in the
  // mean over the batch.
  int64_t sample_count = 0;
  // The layer's random numbers for this step and micro-batch.
  RandomStream stream;
};

// A differentiable function with parameters. Immutable and therefore
// thread-safe; all state is in LayerTensors.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual LayerSpec Spec() const = 0;
  // Returns the number of floats of LayerTensors::saved for `samples` samples.
  virtual int64_t SavedElements(const Device& device, int64_t samples) const;
  virtual void Forward(const LayerCall& call,
                       const LayerTensors& tensors) const = 0;
  // Writes the gradient of every parameter, and of every input whose gradient
  // is not null.
  virtual void Backward(const LayerCall& call,
                        const LayerTensors& tensors) const = 0;
};

inline int64_t Layer::SavedElements(const Device& /*device*/,
                                    int64_t /*samples*/) const {
  return 0;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_
