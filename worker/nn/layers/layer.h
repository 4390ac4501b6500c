// The layer interface: a differentiable function with parameters, written in
// operations of Device alone, so that one class serves every kind of device.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/numerics/philox.h"
#include "proto/parameter_server.pb.h"
#include "worker/device/device.h"
#include "worker/nn/layers/initializer.h"

namespace tributary {

// The most inputs and parameters that a layer may have; fixed, so that running
// a layer needs no lists.
inline constexpr int kMaxLayerInputs = 2;
inline constexpr int kMaxLayerParameters = 4;

struct ParameterSpec {
  std::string name;  // Within the layer, such as "weight".
  std::vector<int64_t> shape;
  OptimizerGroup group = DECAY;
  Initializer initializer;
};

// What the graph and the memory plan must know of a layer.
struct LayerSpec {
  std::vector<int64_t> inputs;  // Elements of each input, per sample.
  bool tokens = false;          // Input 0 is int32_t, not Real.
  int64_t output = 0;           // Elements of the output, per sample.
  std::vector<ParameterSpec> parameters;

  // Parameter 0 is a factor of products: LayerTensors::product_weight.
  bool product_weight = false;

  // Which tensors of the forward pass Backward reads.
  bool backward_reads_input = false;
  bool backward_reads_output = false;
  // Forward works when the output is the same memory as this input; -1: never.
  int in_place_input = -1;
  // Backward works when the gradient of input 0 is the same memory as that of
  // the output.
  bool gradient_in_place = false;
  // The gradient of each input is that of the output: Backward has nothing to
  // do where both are the same memory.
  bool passes_gradient = false;
  // Backward can add to the gradients of its inputs instead of overwriting.
  bool accumulates = false;
  // Backward can add to the gradient of parameter 0: it may be shared.
  bool accumulates_weight = false;
  // The layer is GELU of its input.
  bool is_gelu = false;
  // Forward can also make GELU of the output, and Backward that of the input:
  // LayerTensors::gelu_output and gelu_input.
  bool fuses_gelu = false;
  // Outside training the output is the input: Forward is not called.
  bool identity_in_evaluation = false;
};

// Where the tensors of one call are, in device memory. A sample's elements lie
// together: [samples, elements per sample].
struct LayerTensors {
  std::array<const Real*, kMaxLayerInputs> inputs{};
  std::array<const float*, kMaxLayerParameters> weights{};
  // weights[0] in the device's precision, with LayerSpec::product_weight.
  const Real* product_weight = nullptr;
  Real* output = nullptr;
  float* saved = nullptr;  // Kept from Forward to Backward.
  // Gets GELU of the output, unless null.
  Real* gelu_output = nullptr;

  // Backward only. A null input gradient is not wanted.
  const Real* output_gradient = nullptr;
  std::array<Real*, kMaxLayerInputs> input_gradients{};
  std::array<bool, kMaxLayerInputs> accumulate{};
  std::array<float*, kMaxLayerParameters> weight_gradients{};
  // Unless null, input 0 is GELU of this, and the gradient of this is wanted in
  // place of the input's.
  const Real* gelu_input = nullptr;
  // The gradient of parameter 0 holds another layer's part: add to it.
  bool accumulate_weight = false;
};

struct LayerCall {
  Device* device = nullptr;
  int64_t samples = 0;  // At least 1.
  bool training = false;
  // Backward only: samples (tokens) of the leaf that count, which its gradients
  // are weighted with in the batch's mean.
  int64_t sample_count = 0;
  RandomStream stream;  // This layer's numbers for this step and leaf.
};

// Immutable, so safe from any thread; all state is in LayerTensors.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual LayerSpec Spec() const = 0;
  // Floats of LayerTensors::saved for `samples` samples.
  virtual int64_t SavedElements(const Device& device, int64_t samples) const;
  virtual void Forward(const LayerCall& call,
                       const LayerTensors& tensors) const = 0;
  // Writes the gradient of every parameter and of the inputs that want one.
  virtual void Backward(const LayerCall& call,
                        const LayerTensors& tensors) const = 0;
};

inline int64_t Layer::SavedElements(const Device& /*device*/,
                                    int64_t /*samples*/) const {
  return 0;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_
