// Initial values of parameters: pure functions of the job's seed, bit-identical
// on every machine.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_INITIALIZER_H_
#define TRIBUTARY_WORKER_NN_LAYERS_INITIALIZER_H_

#include <cstdint>

#include "common/numerics/philox.h"

namespace tributary {

struct Initializer {
  enum class Kind {
    kConstant,  // Every element is `scale`.
    kUniform,   // Uniform in [-scale, scale).
    kNormal,    // Normal with mean 0 and standard deviation `scale`.
  };
  Kind kind = Kind::kConstant;
  double scale = 0;

  static Initializer Constant(double value);
  static Initializer Uniform(double bound);
  static Initializer Normal(double deviation);
  // Returns the uniform distribution in [-1 / sqrt(fan_in), 1 / sqrt(fan_in)),
  // which is the default of PyTorch's nn.Linear and nn.Conv2d (He et al.,
  // "Delving deep into rectifiers", 2015, with a = sqrt(5)).
  static Initializer FanIn(int64_t fan_in);
  // Returns the normal distribution with mean 0 and variance 2 / fan_out, which
  // preserves the magnitude of gradients through ReLU: PyTorch's
  // kaiming_normal_ in mode fan_out (He et al., 2015).
  static Initializer FanOut(int64_t fan_out);
};

// Writes `size` initial values to `values`. Element i uses random number i of
// `stream`.
void InitializeValues(const Initializer& initializer,
                      const RandomStream& stream, int64_t size, float* values);
// Writes only elements [begin, end) of these values, to values[begin] and
// following.
void InitializeRange(const Initializer& initializer, const RandomStream& stream,
                     int64_t begin, int64_t end, float* values);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_INITIALIZER_H_
