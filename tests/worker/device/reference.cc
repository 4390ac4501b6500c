#include "tests/worker/device/reference.h"

#include <algorithm>
#include <cmath>

namespace tributary::reference {
namespace {

// Calls visit(index in x, index in weight, index in y) for each product of a
// convolution.
template <typename Visit>
void ForEachProduct(const ConvolutionShape& s, const Visit& visit) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t i = 0; i < s.out_height; ++i) {
        for (int64_t j = 0; j < s.out_width; ++j) {
          const int64_t y =
              ((b * s.out_channels + o) * s.out_height + i) * s.out_width + j;
          for (int64_t c = 0; c < s.in_channels; ++c) {
            for (int64_t u = 0; u < s.kernel; ++u) {
              for (int64_t v = 0; v < s.kernel; ++v) {
                const int64_t row = i * s.stride + u - s.padding;
                const int64_t column = j * s.stride + v - s.padding;
                if (row < 0 || row >= s.in_height || column < 0 ||
                    column >= s.in_width) {
                  continue;
                }
                visit(
                    ((b * s.in_channels + c) * s.in_height + row) * s.in_width +
                        column,
                    ((o * s.in_channels + c) * s.kernel + u) * s.kernel + v, y);
              }
            }
          }
        }
      }
    }
  }
}

// Calls visit(output, index in x, place in the plane) for each element of each
// window.
template <typename Visit>
void ForEachWindowElement(const PoolShape& s, const Visit& visit) {
  int64_t output = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    for (int64_t i = 0; i < s.out_height; ++i) {
      for (int64_t j = 0; j < s.out_width; ++j, ++output) {
        for (int64_t u = 0; u < s.window; ++u) {
          for (int64_t v = 0; v < s.window; ++v) {
            const int64_t row = i * s.Stride() + u - s.padding;
            const int64_t column = j * s.Stride() + v - s.padding;
            if (row < 0 || row >= s.in_height || column < 0 ||
                column >= s.in_width) {
              continue;
            }
            const int64_t place = row * s.in_width + column;
            visit(output, plane * s.in_height * s.in_width + place, place);
          }
        }
      }
    }
  }
}

int64_t OutputCount(const PoolShape& s) {
  return s.batch * s.channels * s.out_height * s.out_width;
}

}  // namespace

Doubles Absolute(Doubles values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

Doubles LinearForward(const LinearShape& s, const Doubles& x,
                      const Doubles& weight, const Doubles& bias) {
  Doubles y(s.rows * s.outputs);
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (int64_t i = 0; i < s.inputs; ++i) {
        sum += x[r * s.inputs + i] * weight[o * s.inputs + i];
      }
      y[r * s.outputs + o] = sum;
    }
  }
  return y;
}

Doubles LinearBackwardInput(const LinearShape& s, const Doubles& dy,
                            const Doubles& weight) {
  Doubles dx(s.rows * s.inputs, 0.0);
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      for (int64_t i = 0; i < s.inputs; ++i) {
        dx[r * s.inputs + i] +=
            dy[r * s.outputs + o] * weight[o * s.inputs + i];
      }
    }
  }
  return dx;
}

Doubles LinearBackwardWeight(const LinearShape& s, const Doubles& x,
                             const Doubles& dy) {
  Doubles dweight(s.outputs * s.inputs, 0.0);
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      for (int64_t i = 0; i < s.inputs; ++i) {
        dweight[o * s.inputs + i] +=
            dy[r * s.outputs + o] * x[r * s.inputs + i];
      }
    }
  }
  return dweight;
}

Doubles ColumnSums(int64_t rows, int64_t width, const Doubles& x) {
  Doubles sums(width, 0.0);
  for (int64_t i = 0; i < rows * width; ++i) sums[i % width] += x[i];
  return sums;
}

Doubles ConvolutionForward(const ConvolutionShape& s, const Doubles& x,
                           const Doubles& weight, const Doubles& bias) {
  const int64_t plane = s.out_height * s.out_width;
  Doubles y(s.batch * s.out_channels * plane, 0.0);
  if (!bias.empty()) {
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias[i / plane % s.out_channels];
    }
  }
  ForEachProduct(
      s, [&](int64_t i, int64_t w, int64_t o) { y[o] += x[i] * weight[w]; });
  return y;
}

Doubles ConvolutionBackwardInput(const ConvolutionShape& s, const Doubles& dy,
                                 const Doubles& weight) {
  Doubles dx(s.batch * s.in_channels * s.in_height * s.in_width, 0.0);
  ForEachProduct(
      s, [&](int64_t i, int64_t w, int64_t o) { dx[i] += dy[o] * weight[w]; });
  return dx;
}

Doubles ConvolutionBackwardWeight(const ConvolutionShape& s, const Doubles& x,
                                  const Doubles& dy) {
  Doubles dweight(s.out_channels * s.in_channels * s.kernel * s.kernel, 0.0);
  ForEachProduct(
      s, [&](int64_t i, int64_t w, int64_t o) { dweight[w] += dy[o] * x[i]; });
  return dweight;
}

Doubles ConvolutionBackwardBias(const ConvolutionShape& s, const Doubles& dy) {
  const int64_t plane = s.out_height * s.out_width;
  Doubles dbias(s.out_channels, 0.0);
  for (size_t i = 0; i < dy.size(); ++i) {
    dbias[i / plane % s.out_channels] += dy[i];
  }
  return dbias;
}

Integers MaxPoolPlaces(const PoolShape& s, const Doubles& x) {
  Integers places(OutputCount(s), -1);
  Doubles maxima(OutputCount(s), 0.0);
  ForEachWindowElement(s, [&](int64_t output, int64_t index, int64_t place) {
    if (places[output] < 0 || x[index] > maxima[output]) {
      places[output] = static_cast<int32_t>(place);
      maxima[output] = x[index];
    }
  });
  return places;
}

Doubles AveragePoolForward(const PoolShape& s, const Doubles& x) {
  Doubles y(OutputCount(s), 0.0);
  const double size = static_cast<double>(s.window * s.window);
  ForEachWindowElement(s, [&](int64_t output, int64_t index, int64_t) {
    y[output] += x[index] / size;
  });
  return y;
}

Doubles SumBlocks(int64_t rows, int64_t count, int64_t width, const Doubles& x,
                  const Doubles& bias) {
  Doubles y(rows * width, 0.0);
  for (int64_t i = 0; i < rows * width && !bias.empty(); ++i) {
    y[i] = bias[i % width];
  }
  for (int64_t i = 0; i < rows * count * width; ++i) {
    y[i / (count * width) * width + i % width] += x[i];
  }
  return y;
}

Doubles PairDots(int64_t rows, int64_t count, int64_t width, const Doubles& x) {
  Doubles y;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 1; i < count; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < width; ++c) {
          dot +=
              x[(r * count + i) * width + c] * x[(r * count + j) * width + c];
        }
        y.push_back(dot);
      }
    }
  }
  return y;
}

Doubles PairSum(int64_t rows, int64_t count, int64_t width, const Doubles& x) {
  const Doubles dots = PairDots(rows, count, width, x);
  const int64_t pairs = count * (count - 1) / 2;
  Doubles y(rows, 0.0);
  for (int64_t i = 0; i < rows * pairs; ++i) y[i / pairs] += dots[i];
  return y;
}

Doubles GlobalAveragePoolForward(int64_t planes, int64_t pixels,
                                 const Doubles& x) {
  Doubles y(planes, 0.0);
  for (int64_t i = 0; i < planes * pixels; ++i) {
    y[i / pixels] += x[i] / static_cast<double>(pixels);
  }
  return y;
}

double Gelu(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  // 1 + tanh(u), without the cancellation near tanh(u) = -1.
  return x / (1 + std::exp(-2 * u));
}

double ExactGelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2)); }

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double Silu(double x) { return x * Sigmoid(x); }

double LeakyRelu(double x, double alpha) { return x > 0 ? x : alpha * x; }

double Elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

double DropoutFactor(const RandomStream& stream, float rate, uint64_t i) {
  return UniformFloat(stream.Block(i / 4)[i % 4]) >= rate ? 1.0 / (1.0 - rate)
                                                          : 0.0;
}

Doubles LayerNormForward(int64_t rows, int64_t width, const Doubles& x,
                         const Doubles& scale, const Doubles& shift) {
  Doubles y(rows * width);
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = &x[r * width];
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < width; ++c) mean += row[c] / width;
    for (int64_t c = 0; c < width; ++c) {
      variance += (row[c] - mean) * (row[c] - mean) / width;
    }
    for (int64_t c = 0; c < width; ++c) {
      y[r * width + c] =
          (row[c] - mean) / std::sqrt(variance + 1e-5) * scale[c] +
          (shift.empty() ? 0.0 : shift[c]);
    }
  }
  return y;
}

Doubles BatchNormMean(const BatchNormShape& s, const Doubles& x) {
  Doubles mean(s.channels, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    mean[i / s.pixels % s.channels] +=
        x[i] / static_cast<double>(s.batch * s.pixels);
  }
  return mean;
}

Doubles BatchNormVariance(const BatchNormShape& s, const Doubles& x) {
  const Doubles mean = BatchNormMean(s, x);
  Doubles squares = x;
  for (size_t i = 0; i < x.size(); ++i) {
    squares[i] = std::pow(x[i] - mean[i / s.pixels % s.channels], 2);
  }
  return BatchNormMean(s, squares);
}

Doubles BatchNormEvaluate(const BatchNormShape& s, const Doubles& x,
                          const Doubles& scale, const Doubles& shift,
                          const Doubles& mean, const Doubles& variance,
                          const Doubles& residual) {
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / s.pixels % s.channels;
    y[i] = (x[i] - mean[c]) / std::sqrt(std::max(variance[c], 0.0) + 1e-5) *
               scale[c] +
           shift[c] + (residual.empty() ? 0.0 : residual[i]);
    if (s.relu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

Doubles AttentionForward(const AttentionShape& s, const Doubles& qkv,
                         const RandomStream& stream, float rate,
                         const Integers& lengths) {
  const int64_t T = s.time, D = s.head_size, width = s.heads * D;
  Doubles y(s.batch * T * width, 0.0);
  const auto at = [&](int64_t b, int64_t t, int64_t which, int64_t h) {
    return &qkv[((b * T + t) * 3 + which) * width + h * D];
  };
  Doubles p(T);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t length = lengths.empty() ? T : lengths[b];
      for (int64_t i = 0; i < length; ++i) {
        const int64_t keys = s.causal ? i + 1 : length;
        const double* q = at(b, i, 0, h);
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          const double* k = at(b, j, 1, h);
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += q[d] * k[d];
          p[j] = std::exp(score / std::sqrt(static_cast<double>(D)));
          sum += p[j];
        }
        for (int64_t j = 0; j < keys; ++j) {
          const uint64_t element = ((b * s.heads + h) * T + i) * T + j;
          const double factor =
              rate > 0 ? DropoutFactor(stream, rate, element) : 1.0;
          const double* v = at(b, j, 2, h);
          for (int64_t d = 0; d < D; ++d) {
            y[(b * T + i) * width + h * D + d] += p[j] / sum * factor * v[d];
          }
        }
      }
    }
  }
  return y;
}

double SoftmaxCrossEntropy(int64_t rows, int64_t classes, const Doubles& logits,
                           const Integers& labels, double smoothing,
                           int64_t padding) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = &logits[r * classes];
    const double maximum = *std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - maximum);
    const double normalizer = std::log(sum) + maximum;
    loss += (1 - smoothing) * (normalizer - row[labels[r]]);
    const int64_t targets = classes - padding;
    for (int64_t c = 0; smoothing > 0 && c < targets; ++c) {
      loss += smoothing / static_cast<double>(targets) * (normalizer - row[c]);
    }
  }
  return loss;
}

double MeanSquaredError(int64_t rows, int64_t width, const Doubles& x,
                        const Doubles& target) {
  double loss = 0;
  for (int64_t i = 0; i < rows * width; ++i) {
    loss += (x[i] - target[i]) * (x[i] - target[i]) / width;
  }
  return loss;
}

double BinaryCrossEntropy(const Doubles& logits, const Integers& labels) {
  double loss = 0;
  for (size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] < 0) continue;
    const double p = Sigmoid(logits[r]);
    loss -= std::log(labels[r] == 1 ? p : 1 - p);
  }
  return loss;
}

}  // namespace tributary::reference
