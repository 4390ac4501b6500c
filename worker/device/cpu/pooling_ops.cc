#include <algorithm>
#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/reductions.h"

namespace tributary::cpu {
namespace {

// Calls visit(position of the window's corner in its input plane, output index,
// first element of the input plane) for each window, in the order of the
// outputs.
template <typename Visit>
TRIBUTARY_INLINE void ForEachWindow(const PoolShape& s, const Visit& visit) {
  int64_t output = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const int64_t base = plane * s.in_height * s.in_width;
    for (int64_t i = 0; i < s.out_height; ++i) {
      for (int64_t j = 0; j < s.out_width; ++j) {
        visit(i * s.window * s.in_width + j * s.window, output++, base);
      }
    }
  }
}

// The part of window number `number`, along one side, within the image.
struct Extent {
  int64_t begin, end;
};

Extent WindowExtent(const PoolShape& s, int64_t number, int64_t side) {
  const int64_t begin = number * s.Stride() - s.padding;
  return {std::max<int64_t>(begin, 0), std::min(begin + s.window, side)};
}

// Returns the position of the first maximum.
int64_t MaximumOf(const float* plane, int64_t width, Extent rows,
                  Extent columns) {
  int64_t best = rows.begin * width + columns.begin;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      if (plane[i * width + j] > plane[best]) best = i * width + j;
    }
  }
  return best;
}

void AnyWindowForward(const PoolShape& s, const float* x, float* y,
                      int32_t* argmax) {
  int64_t output = 0;
  for (int64_t number = 0; number < s.batch * s.channels; ++number) {
    const float* plane = x + number * s.in_height * s.in_width;
    for (int64_t i = 0; i < s.out_height; ++i) {
      const Extent rows = WindowExtent(s, i, s.in_height);
      for (int64_t j = 0; j < s.out_width; ++j, ++output) {
        const int64_t best =
            MaximumOf(plane, s.in_width, rows, WindowExtent(s, j, s.in_width));
        y[output] = plane[best];
        argmax[output] = static_cast<int32_t>(best);
      }
    }
  }
}

void AnyWindowBackward(const PoolShape& shape, const float* dy,
                       const int32_t* argmax, float* dx) {
  const int64_t in_plane = shape.in_height * shape.in_width;
  const int64_t out_plane = shape.out_height * shape.out_width;
  const int64_t planes = shape.batch * shape.channels;
  std::memset(dx, 0, planes * in_plane * sizeof(float));
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t o = 0; o < out_plane; ++o) {
      const int64_t output = plane * out_plane + o;
      dx[plane * in_plane + argmax[output]] += dy[output];
    }
  }
}

// Windows of 2 x 2, by far the most frequent, take two steps, each over long
// runs that the compiler vectorizes: first pairs of rows, then neighbours in
// the result. The 7 or 14 outputs of a row alone would not fill a vector.
struct PairBuffers {
  PairBuffers(const PoolShape& s, Scratch& scratch)
      : upper(scratch.Floats(5 * s.out_height * s.out_width)),
        lower(upper + 2 * s.out_height * s.out_width),
        corners(reinterpret_cast<int32_t*>(lower +
                                           2 * s.out_height * s.out_width)) {
    for (int64_t i = 0; i < s.out_height; ++i) {
      for (int64_t j = 0; j < s.out_width; ++j) {
        corners[i * s.out_width + j] =
            static_cast<int32_t>(2 * i * s.in_width + 2 * j);
      }
    }
  }

  // [out_height, 2 out_width]: values for the upper and lower rows of the
  // windows.
  float *upper, *lower;
  // [out_height, out_width]: positions of the windows' first elements.
  int32_t* corners;
};

// maxima[c] = the larger of the rows; is_lower[c] = 1 if only the lower one has
// it.
TRIBUTARY_INLINE void PairRows(int64_t count, const float* upper,
                               const float* lower, float* maxima,
                               float* is_lower) {
  for (int64_t c = 0; c < count; ++c) {
    const bool below = lower[c] > upper[c];
    maxima[c] = below ? lower[c] : upper[c];
    is_lower[c] = below ? 1.0f : 0.0f;
  }
}

// Compares neighbours in `maxima`. Of equal values the upper one wins, then the
// left one.
TRIBUTARY_INLINE void PairColumns(int64_t count, int32_t in_width,
                                  const float* maxima, const float* is_lower,
                                  const int32_t* corners, float* y,
                                  int32_t* argmax) {
  for (int64_t o = 0; o < count; ++o) {
    const float left = maxima[2 * o], right = maxima[2 * o + 1];
    const float left_lower = is_lower[2 * o], right_lower = is_lower[2 * o + 1];
    const bool is_right =
        (right > left) | ((right == left) & (left_lower > right_lower));
    const int32_t row =
        static_cast<int32_t>(is_right ? right_lower : left_lower);
    y[o] = is_right ? right : left;
    argmax[o] = corners[o] + (is_right ? 1 : 0) + row * in_width;
  }
}

TRIBUTARY_MULTIVERSION
void PairwiseForward(const PoolShape& s, const float* x,
                     const PairBuffers& buffers, float* y, int32_t* argmax) {
  const int64_t width = 2 * s.out_width, outputs = s.out_height * s.out_width;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* in = x + plane * s.in_height * s.in_width;
    for (int64_t i = 0; i < s.out_height; ++i) {
      const float* rows = in + 2 * i * s.in_width;
      PairRows(width, rows, rows + s.in_width, buffers.upper + i * width,
               buffers.lower + i * width);
    }
    PairColumns(outputs, static_cast<int32_t>(s.in_width), buffers.upper,
                buffers.lower, buffers.corners, y + plane * outputs,
                argmax + plane * outputs);
  }
}

// Writes each output's gradient to its position in the window's upper or lower
// row.
TRIBUTARY_INLINE void SpreadColumns(int64_t count, int32_t in_width,
                                    const float* dy, const int32_t* argmax,
                                    const int32_t* corners, float* upper,
                                    float* lower) {
  for (int64_t o = 0; o < count; ++o) {
    const int32_t place = argmax[o] - corners[o];
    upper[2 * o] = place == 0 ? dy[o] : 0.0f;
    upper[2 * o + 1] = place == 1 ? dy[o] : 0.0f;
    lower[2 * o] = place == in_width ? dy[o] : 0.0f;
    lower[2 * o + 1] = place == in_width + 1 ? dy[o] : 0.0f;
  }
}

TRIBUTARY_MULTIVERSION
void PairwiseBackward(const PoolShape& s, const float* dy,
                      const int32_t* argmax, const PairBuffers& buffers,
                      float* dx) {
  const int64_t width = 2 * s.out_width, outputs = s.out_height * s.out_width;
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(float));
  const bool covers = width == s.in_width && 2 * s.out_height == s.in_height;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    float* out = dx + plane * s.in_height * s.in_width;
    if (!covers) {
      std::memset(out, 0, s.in_height * s.in_width * sizeof(float));
    }
    SpreadColumns(outputs, static_cast<int32_t>(s.in_width),
                  dy + plane * outputs, argmax + plane * outputs,
                  buffers.corners, buffers.upper, buffers.lower);
    for (int64_t i = 0; i < s.out_height; ++i) {
      float* rows = out + 2 * i * s.in_width;
      std::memcpy(rows, buffers.upper + i * width, row_bytes);
      std::memcpy(rows + s.in_width, buffers.lower + i * width, row_bytes);
    }
  }
}

bool IsPairwise(const PoolShape& s) {
  return s.window == 2 && s.Stride() == 2 && s.padding == 0;
}

void MaxPoolForward(const PoolShape& shape, const float* x, Scratch& scratch,
                    float* y, int32_t* argmax) {
  if (IsPairwise(shape)) {
    PairwiseForward(shape, x, PairBuffers(shape, scratch), y, argmax);
  } else {
    AnyWindowForward(shape, x, y, argmax);
  }
}

void MaxPoolBackward(const PoolShape& shape, const float* dy,
                     const int32_t* argmax, Scratch& scratch, float* dx) {
  if (IsPairwise(shape)) {
    PairwiseBackward(shape, dy, argmax, PairBuffers(shape, scratch), dx);
  } else {
    AnyWindowBackward(shape, dy, argmax, dx);
  }
}

void AveragePoolForward(const PoolShape& shape, const float* x, float* y) {
  const float factor = 1.0f / static_cast<float>(shape.window * shape.window);
  ForEachWindow(shape, [&](int64_t corner, int64_t output, int64_t base) {
    const float* plane = x + base;
    float sum = 0;
    for (int64_t i = 0; i < shape.window; ++i) {
      for (int64_t j = 0; j < shape.window; ++j) {
        sum += plane[corner + i * shape.in_width + j];
      }
    }
    y[output] = sum * factor;
  });
}

void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx) {
  const float factor = 1.0f / static_cast<float>(shape.window * shape.window);
  std::memset(dx, 0,
              shape.batch * shape.channels * shape.in_height * shape.in_width *
                  sizeof(float));
  ForEachWindow(shape, [&](int64_t corner, int64_t output, int64_t base) {
    for (int64_t i = 0; i < shape.window; ++i) {
      for (int64_t j = 0; j < shape.window; ++j) {
        dx[base + corner + i * shape.in_width + j] = dy[output] * factor;
      }
    }
  });
}

TRIBUTARY_MULTIVERSION
void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const float* x,
                              float* y) {
  for (int64_t plane = 0; plane < planes; ++plane) {
    y[plane] = RowSum(pixels, x + plane * pixels) / static_cast<float>(pixels);
  }
}

void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const float* dy,
                               float* dx) {
  for (int64_t plane = 0; plane < planes; ++plane) {
    std::fill_n(dx + plane * pixels, pixels,
                dy[plane] / static_cast<float>(pixels));
  }
}

// A range of planes: the shape of its windows, and its elements in the input
// and in the output.
struct Planes {
  PoolShape shape;
  int64_t in, in_size, out, out_size;
};

// T is what Real stands for. In bfloat16, processes groups of planes, which are
// independent.
template <typename T>
class CpuPoolingOps final : public PoolingOps {
 public:
  explicit CpuPoolingOps(Context* context) : context_(context) {}

  void MaxForward(const MaxForwardArguments& args) override {
    Forward(args, [&](const Planes& p, const float* x, float* y) {
      MaxPoolForward(p.shape, x, context_->scratch, y, args.argmax + p.out);
    });
  }
  void MaxBackward(const MaxBackwardArguments& args) override {
    Backward(args, [&](const Planes& p, const float* dy, float* dx) {
      MaxPoolBackward(p.shape, dy, args.argmax + p.out, context_->scratch, dx);
    });
  }
  void AverageForward(const AverageForwardArguments& args) override {
    Forward(args, [](const Planes& p, const float* x, float* y) {
      AveragePoolForward(p.shape, x, y);
    });
  }
  void AverageBackward(const AverageBackwardArguments& args) override {
    Backward(args, [](const Planes& p, const float* dy, float* dx) {
      AveragePoolBackward(p.shape, dy, dx);
    });
  }
  void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) override {
    const int64_t pixels = args.pixels;
    InBlocks<T>(
        args.planes, pixels, kSmallBlock, [&](int64_t first, int64_t n) {
          float* const y = Room<T>(context_, 1, n, args.y, first);
          GlobalAveragePoolForward(
              n, pixels,
              Read<T>(context_, 0, n * pixels, args.x, first * pixels), y);
          Write<T>(n, y, args.y, first);
        });
  }
  void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) override {
    const int64_t pixels = args.pixels;
    InBlocks<T>(args.planes, pixels, kSmallBlock,
                [&](int64_t first, int64_t n) {
                  float* const dx =
                      Room<T>(context_, 1, n * pixels, args.dx, first * pixels);
                  GlobalAveragePoolBackward(
                      n, pixels, Read<T>(context_, 0, n, args.dy, first), dx);
                  Write<T>(n * pixels, dx, args.dx, first * pixels);
                });
  }

 private:
  // Calls run(planes, x, y) for groups of planes.
  template <typename Arguments, typename Run>
  void Forward(const Arguments& args, const Run& run) {
    ForPlanes(args.shape, [&](const Planes& p) {
      float* const y = Room<T>(context_, 1, p.out_size, args.y, p.out);
      run(p, Read<T>(context_, 0, p.in_size, args.x, p.in), y);
      Write<T>(p.out_size, y, args.y, p.out);
    });
  }
  // Calls run(planes, dy, dx) for groups of planes.
  template <typename Arguments, typename Run>
  void Backward(const Arguments& args, const Run& run) {
    ForPlanes(args.shape, [&](const Planes& p) {
      float* const dx = Room<T>(context_, 1, p.in_size, args.dx, p.in);
      run(p, Read<T>(context_, 0, p.out_size, args.dy, p.out), dx);
      Write<T>(p.in_size, dx, args.dx, p.in);
    });
  }
  template <typename Run>
  static void ForPlanes(const PoolShape& shape, const Run& run) {
    const int64_t in = shape.in_height * shape.in_width;
    const int64_t out = shape.out_height * shape.out_width;
    InBlocks<T>(shape.batch * shape.channels, in, kLargeBlock,
                [&](int64_t first, int64_t n) {
                  PoolShape group = shape;
                  group.batch = 1;
                  group.channels = n;
                  run({group, first * in, n * in, first * out, n * out});
                });
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             Context* context) {
  return CreateOps<PoolingOps, CpuPoolingOps>(precision, context);
}

}  // namespace tributary::cpu
