// Compares gradients with finite differences, for the unit tests of programs
// with layers, networks or losses of their own:
//
//   TEST(SlopeTest, BackwardComputesTheGradient) {
//     EXPECT_EQ(tributary::CheckGradients(Slope(/*size=*/8)),
//               absl::OkStatus());
//   }
//
// docs/cpp.md explains these functions.
#ifndef TRIBUTARY_GRADIENT_CHECK_H_
#define TRIBUTARY_GRADIENT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tributary/nn.h"

namespace tributary {

struct GradientCheckOptions {
  int64_t samples = 3;  // Number of samples of the batch.
  // Inputs are drawn uniformly from [-input_range, input_range), and values to
  // predict from [-1, 1). A parameter is its initial value plus a number from
  // [-0.5, 0.5).
  double input_range = 2;
  // Number of different tokens of a layer or network that reads tokens
  // (LayerSpec::tokens). The tokens are drawn from [0, tokens).
  int32_t tokens = 0;
  // Number of classes of the labels of a LossFunction. The labels are drawn
  // from [0, classes). The built-in losses determine their number of classes.
  int32_t classes = 2;
  uint64_t seed = 1;  // Selects the random numbers.
  // The largest difference between an element of a gradient and the finite
  // difference that is accepted, relative to the largest finite difference of
  // the same tensor. Rounding errors are accepted in addition.
  double tolerance = 0.01;
  // Of tensors with more elements, only as many are compared.
  int64_t elements = 200;
};

// Each of these functions computes gradients on a CPU in float32, and compares
// them with central differences, whose sums are in float64. Where a function
// has a kink, as ReLU at 0, no difference is defined, and the element is left
// out. Parameters of ParameterGroup::kStatistics and frozen parameters are left
// out, too. Returns OK if the gradients agree, or else InvalidArgument, with
// one line that names the tensor and its first element that differs, and both
// values.

// Checks the gradients of all inputs and parameters of `layer`, in training
// mode. Also returns an error if Forward or Backward leaves elements of its
// results unwritten, if equal arguments yield different results, or if Backward
// reads an input or the output although `backward_reads_input` or
// `backward_reads_output` of the LayerSpec is false.
absl::Status CheckGradients(const Layer& layer,
                            const GradientCheckOptions& options = {});

// Checks the gradients of all parameters of a network with its loss. Also
// returns the errors of the graph, such as mismatched sizes.
absl::Status CheckGradients(Graph graph,
                            const GradientCheckOptions& options = {});

// Checks the gradient of a loss, such as one with a LossFunction.
absl::Status CheckGradients(const LossSpec& loss,
                            const GradientCheckOptions& options = {});

}  // namespace tributary

#endif  // TRIBUTARY_GRADIENT_CHECK_H_
