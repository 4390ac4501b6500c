// Layer interface: a differentiable function with parameters. The layers of
// this folder are implemented with operations of Device only, so that each of
// them runs on every kind of device.
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

// The maximum number of inputs of a layer, and the maximum number of its
// parameters. Because the maximums are fixed, running a layer requires no
// memory allocation.
inline constexpr int kMaxLayerInputs = 2;
inline constexpr int kMaxLayerParameters = 6;

struct ParameterSpec {
  std::string name;  // Name within the layer, such as "weight".
  std::vector<int64_t> shape;
  ParameterGroup group = ParameterGroup::kDecay;
  Initializer initializer;
  // Number of padding elements that follow the parameter in memory. The layer
  // reads them, and writes zeros to their gradients; see ParameterTable.
  int64_t padding = 0;
};

// The properties of a layer that the graph and the memory plan depend on.
struct LayerSpec {
  std::vector<int64_t> inputs;  // Number of elements of each input, per sample.
  bool tokens = false;          // True if input 0 holds int32_t, not Real.
  int64_t output = 0;           // Number of elements of the output, per sample.
  std::vector<ParameterSpec> parameters;
  // Constants that Forward reads from LayerTensors::constants.
  std::vector<float> constants;

  // True if parameter 0 is an operand of matrix products. The layer then reads
  // the parameter from LayerTensors::product_weight.
  bool product_weight = false;
  // Number of parameters, beginning with parameter 0, to which `product_weight`
  // applies. They are contiguous in memory, and the layer reads them as one
  // matrix.
  int product_parameters = 1;

  // True if Backward reads the inputs (backward_reads_input) or the output
  // (backward_reads_output) of the forward pass.
  bool backward_reads_input = false;
  bool backward_reads_output = false;
  // Index of the input whose memory Forward can use for the output; -1 if there
  // is none.
  int in_place_input = -1;
  // True if Backward accepts the same memory for the gradient of input 0 and
  // the gradient of the output.
  bool gradient_in_place = false;
  // True if the gradient of each input equals the gradient of the output.
  // Backward then does nothing for an input whose gradient has the same memory
  // as the gradient of the output.
  bool passes_gradient = false;
  // True if Backward can add to the gradients of the inputs instead of
  // overwriting them.
  bool accumulates = false;
  // True if Backward can add to the gradient of parameter 0, so that layers may
  // share the parameter.
  bool accumulates_weight = false;
  // True if Backward can compute the gradients of the parameters and those of
  // the inputs in separate calls: all pointers to the others are then null.
  bool separates_weights = false;
  // True if the layer computes GELU (see ElementwiseOps::GeluForward) of its
  // input.
  bool is_gelu = false;
  // True if Forward can also compute GELU of the output
  // (LayerTensors::gelu_output), and Backward can also compute the gradient of
  // a GELU that produced the input (LayerTensors::gelu_input).
  bool fuses_gelu = false;
  // True if the output is the sum of both inputs.
  bool is_sum = false;
  // True if Forward can also compute input 0 when input 0 is the output of a
  // layer with is_sum (see LayerTensors::sum).
  bool fuses_sum = false;
  // True if the layer accesses tensors with its own loops (see HostFloats)
  // instead of operations of the device. It then works only on CPU devices with
  // Precision::kFloat32.
  bool host_floats = false;
  // True if the output equals the input outside of training, as in dropout.
  // Forward is then not called, and the input is used in place of the output.
  bool identity_in_evaluation = false;
};

// Addresses of the tensors of one call, in device memory. The elements of a
// sample are contiguous: [samples, elements per sample].
struct LayerTensors {
  std::array<const Real*, kMaxLayerInputs> inputs{};
  std::array<const float*, kMaxLayerParameters> weights{};
  // Parameter 0 (weights[0]) in the device's number format, as an operand of
  // matrix products. Null unless LayerSpec::product_weight is true.
  const Real* product_weight = nullptr;
  const float* constants = nullptr;  // LayerSpec::constants, or null.
  Real* output = nullptr;
  float* saved = nullptr;  // Preserved from Forward to Backward.
  // If not null, Forward writes GELU of the output here.
  Real* gelu_output = nullptr;
  // If not null, this is input 0, and Forward first sets it to addends[0] +
  // addends[1]. It may be addends[1].
  Real* sum = nullptr;
  std::array<const Real*, 2> addends{};

  // This field and the fields below are used by Backward only. Backward does
  // not compute the gradient of an input whose pointer in input_gradients is
  // null.
  const Real* output_gradient = nullptr;
  std::array<Real*, kMaxLayerInputs> input_gradients{};
  // Indexed by input. True if Backward must add to the gradient of that input
  // instead of overwriting it.
  std::array<bool, kMaxLayerInputs> accumulate{};
  std::array<float*, kMaxLayerParameters> weight_gradients{};
  // If not null, input 0 is GELU of this tensor, and Backward computes the
  // gradient of this tensor instead of the gradient of input 0.
  const Real* gelu_input = nullptr;
  // True if Backward must add to the gradient of parameter 0, because a
  // different layer that shares the parameter has written its part.
  bool accumulate_weight = false;
};

struct LayerCall {
  Device* device = nullptr;
  int64_t samples = 0;  // At least 1.
  bool training = false;
  // Backward only: number of samples (tokens) of the micro-batch that count,
  // that is, whose label is not -1. This is the weight of the micro-batch in
  // the mean over the batch.
  int64_t sample_count = 0;
  // The stream of the layer's random numbers for this step and micro-batch.
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
  // Writes the gradient of every parameter, and of every input whose pointer in
  // LayerTensors::input_gradients is not null. If LayerSpec::separates_weights,
  // the pointers to the gradients of all parameters may be null, too; Backward
  // then does not compute them.
  virtual void Backward(const LayerCall& call,
                        const LayerTensors& tensors) const = 0;
};

inline int64_t Layer::SavedElements(const Device& /*device*/,
                                    int64_t /*samples*/) const {
  return 0;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LAYER_H_
