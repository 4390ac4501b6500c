#include "tests/support/reference_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tributary {
namespace {

using Inputs = const std::vector<Values>&;

double DropoutFactor(const RandomStream& stream, int64_t number, float rate) {
  if (rate == 0) return 1;
  const uint32_t bits = stream.Block(number / 4)[number % 4];
  return UniformFloat(bits) >= rate ? 1 / (1 - static_cast<double>(rate)) : 0;
}

// Calls `each(output index, input index)` for all inputs of each window.
template <typename Function>
void ForEachWindow(const PoolShape& s, int64_t batch, const Function& each) {
  int64_t out = 0;
  for (int64_t plane = 0; plane < batch * s.channels; ++plane) {
    for (int64_t i = 0; i < s.out_height; ++i) {
      for (int64_t j = 0; j < s.out_width; ++j, ++out) {
        for (int64_t u = 0; u < s.window * s.window; ++u) {
          const int64_t row = i * s.Stride() + u / s.window - s.padding;
          const int64_t column = j * s.Stride() + u % s.window - s.padding;
          if (row < 0 || row >= s.in_height) continue;
          if (column < 0 || column >= s.in_width) continue;
          each(out, (plane * s.in_height + row) * s.in_width + column);
        }
      }
    }
  }
}

int64_t BatchOf(const PoolShape& s, const Values& x) {
  return static_cast<int64_t>(x.size()) /
         (s.channels * s.in_height * s.in_width);
}

double ConvolvedAt(const ConvolutionShape& s, const Values& x, const Values& w,
                   int64_t n, int64_t o, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t u = 0; u < s.kernel; ++u) {
      for (int64_t v = 0; v < s.kernel; ++v) {
        const int64_t row = i * s.stride + u - s.padding;
        const int64_t column = j * s.stride + v - s.padding;
        if (row < 0 || row >= s.in_height) continue;
        if (column < 0 || column >= s.in_width) continue;
        sum += x[((n * s.in_channels + c) * s.in_height + row) * s.in_width +
                 column] *
               w[((o * s.in_channels + c) * s.kernel + u) * s.kernel + v];
      }
    }
  }
  return sum;
}

}  // namespace

ReferenceLayer ReferenceLinear(int64_t rows, int64_t inputs, int64_t outputs) {
  return [=](Inputs x, Inputs w) {
    Values y(rows * outputs);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = w.size() > 1 ? w[1][o] : 0;
        for (int64_t i = 0; i < inputs; ++i) {
          sum += x[0][r * inputs + i] * w[0][o * inputs + i];
        }
        y[r * outputs + o] = sum;
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceConvolution(const ConvolutionShape& s) {
  return [=](Inputs x, Inputs w) {
    Values y;
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        for (int64_t i = 0; i < s.out_height; ++i) {
          for (int64_t j = 0; j < s.out_width; ++j) {
            const double bias = w.size() > 1 ? w[1][o] : 0;
            y.push_back(bias + ConvolvedAt(s, x[0], w[0], n, o, i, j));
          }
        }
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceMaxPool(const PoolShape& s) {
  return [=](Inputs x, Inputs) {
    const int64_t batch = BatchOf(s, x[0]);
    Values y(batch * s.channels * s.out_height * s.out_width,
             -std::numeric_limits<double>::infinity());
    ForEachWindow(s, batch, [&](int64_t out, int64_t in) {
      y[out] = std::max(y[out], x[0][in]);
    });
    return y;
  };
}

ReferenceLayer ReferenceAveragePool(const PoolShape& s) {
  return [=](Inputs x, Inputs) {
    const int64_t batch = BatchOf(s, x[0]);
    Values y(batch * s.channels * s.out_height * s.out_width);
    ForEachWindow(s, batch, [&](int64_t out, int64_t in) {
      y[out] += x[0][in] / static_cast<double>(s.window * s.window);
    });
    return y;
  };
}

ReferenceLayer ReferenceGlobalAveragePool(int64_t pixels) {
  return [=](Inputs x, Inputs) {
    Values y(x[0].size() / pixels);
    for (size_t i = 0; i < x[0].size(); ++i) {
      y[i / pixels] += x[0][i] / static_cast<double>(pixels);
    }
    return y;
  };
}

ReferenceLayer ReferenceRelu() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (double& value : y) value = std::max(value, 0.0);
    return y;
  };
}

ReferenceLayer ReferenceGelu() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (double& v : y) {
      v = 0.5 * v *
          (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    return y;
  };
}

ReferenceLayer ReferenceDropout(const RandomStream& stream, float rate) {
  return [=](Inputs x, Inputs) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] *= DropoutFactor(stream, i, rate);
    }
    return y;
  };
}

ReferenceLayer ReferenceLayerNorm(int64_t rows, int64_t width) {
  return [=](Inputs x, Inputs w) {
    Values y(x[0].size());
    for (int64_t r = 0; r < rows; ++r) {
      const double* row = x[0].data() + r * width;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < width; ++i) mean += row[i] / width;
      for (int64_t i = 0; i < width; ++i) {
        variance += (row[i] - mean) * (row[i] - mean) / width;
      }
      for (int64_t i = 0; i < width; ++i) {
        y[r * width + i] =
            (row[i] - mean) / std::sqrt(variance + 1e-5) * w[0][i] +
            (w.size() > 1 ? w[1][i] : 0);
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceBatchNorm(const BatchNormShape& s) {
  return [=](Inputs x, Inputs w) {
    const auto channel = [&](size_t i) { return i / s.pixels % s.channels; };
    const double count = static_cast<double>(s.batch * s.pixels);
    Values mean(s.channels), variance(s.channels), y(x[0].size());
    for (size_t i = 0; i < y.size(); ++i) mean[channel(i)] += x[0][i] / count;
    for (size_t i = 0; i < y.size(); ++i) {
      variance[channel(i)] += std::pow(x[0][i] - mean[channel(i)], 2) / count;
    }
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = channel(i);
      y[i] = (x[0][i] - mean[c]) / std::sqrt(variance[c] + 1e-5) * w[0][c] +
             w[1][c] + (x.size() > 1 ? x[1][i] : 0);
      if (s.relu) y[i] = std::max(y[i], 0.0);
    }
    return y;
  };
}

ReferenceLayer ReferenceEmbedding(int64_t context, int64_t width,
                                  const std::vector<int32_t>& tokens) {
  return [=](Inputs, Inputs w) {
    Values y;
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        y.push_back(w[0][tokens[i] * width + c] +
                    w[1][(i % context) * width + c]);
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceAttention(const AttentionShape& s,
                                  const RandomStream& stream, float rate) {
  return [=](Inputs x, Inputs) {
    const int64_t width = s.heads * s.head_size;
    Values y(s.batch * s.time * width);
    for (int64_t bh = 0; bh < s.batch * s.heads; ++bh) {
      const int64_t b = bh / s.heads, h = bh % s.heads;
      const auto at = [&](int64_t part, int64_t t) {
        return x[0].data() + ((b * s.time + t) * 3 + part) * width +
               h * s.head_size;
      };
      for (int64_t i = 0; i < s.time; ++i) {
        Values p(i + 1);
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (int64_t d = 0; d < s.head_size; ++d) {
            score += at(0, i)[d] * at(1, j)[d];
          }
          p[j] = std::exp(score / std::sqrt(s.head_size));
          sum += p[j];
        }
        for (int64_t j = 0; j <= i; ++j) {
          const double weight =
              p[j] / sum *
              DropoutFactor(stream, (bh * s.time + i) * s.time + j, rate);
          for (int64_t d = 0; d < s.head_size; ++d) {
            y[(b * s.time + i) * width + h * s.head_size + d] +=
                weight * at(2, j)[d];
          }
        }
      }
    }
    return y;
  };
}

ReferenceLayer ReferenceResidual() {
  return [](Inputs x, Inputs) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
    return y;
  };
}

double ReferenceCrossEntropy(int64_t rows, int64_t classes, const Values& x,
                             const std::vector<int32_t>& labels) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[r * classes + c]);
    loss += std::log(sum) - x[r * classes + labels[r]];
  }
  return loss;
}

double ReferenceSquaredError(int64_t rows, int64_t width, const Values& x,
                             const Values& target) {
  double loss = 0;
  for (int64_t i = 0; i < rows * width; ++i) {
    loss += (x[i] - target[i]) * (x[i] - target[i]) / width;
  }
  return loss;
}

}  // namespace tributary
