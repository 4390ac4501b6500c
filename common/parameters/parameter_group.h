// How servers update a parameter.
#ifndef TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_
#define TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_

namespace tributary {

// The values are those of OptimizerGroup in proto/parameter_server.proto, which
// describes them completely.
enum class ParameterGroup {
  // By the optimizer, with weight decay.
  kDecay = 1,
  // By the optimizer, without weight decay: biases, and weights of norms.
  kNoDecay = 2,
  // Running statistics. In place of a gradient, the worker gives the sum over
  // the samples of (weight - observed value), and servers move the weight by a
  // tenth of the mean, whatever the optimizer is.
  kStatistics = 3,
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_PARAMETER_GROUP_H_
