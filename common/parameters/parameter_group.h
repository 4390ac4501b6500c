// How servers update a parameter.
#ifndef TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_
#define TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_

namespace tributary {

// Determines how servers update a parameter. The numbers are the same as in
// OptimizerGroup of proto/parameter_server.proto, which describes the groups
// completely.
enum class ParameterGroup {
  // The optimizer updates the parameter, with weight decay.
  kDecay = 1,
  // The optimizer updates the parameter, without weight decay. For biases, and
  // for the weights of normalization layers.
  kNoDecay = 2,
  // The parameter holds running statistics, such as a mean. In place of a
  // gradient, the worker contributes the sum over the samples of (parameter -
  // observed value). Servers do not run the optimizer; they subtract from the
  // parameter a tenth of the mean over the samples, or in mode local_steps the
  // whole mean.
  kStatistics = 3,
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_
