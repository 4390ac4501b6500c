// Numbers tiles over all images of the batch, row by row, and processes them a
// block at a time, so that a block's data stays in the cache from the first
// transformation to the last. B, G and A are the paper's matrices.
#include "worker/device/cpu/kernels/winograd.h"

#include <algorithm>
#include <cstring>

#include "common/numerics/simd.h"

namespace tributary::cpu {
namespace {

// Number of elements of a transformed tile or kernel: 4 x 4.
constexpr int kElements = 16;
// Number of tiles in a panel, and of output channels, in one inner product:
// twelve sums of eight lanes, which with their operands fill the sixteen
// registers of AVX2.
constexpr int64_t kPanel = 16;
constexpr int64_t kRows = 6;
// A larger block would not stay in the second-level cache; a smaller one would
// read the kernels more often.
constexpr int64_t kBlock = 64;
// Number of floats in a cache line.
constexpr int64_t kPadding = 16;
// With fewer channels the transformations take longer than the algorithm saves.
constexpr int64_t kLeastChannels = 32;

constexpr int kOctet = 8;
typedef float Octet __attribute__((vector_size(4 * kOctet)));
typedef float UnalignedOctet
    __attribute__((vector_size(4 * kOctet), aligned(4), may_alias));

TRIBUTARY_INLINE Octet LoadTiles(const float* from) {
  return *reinterpret_cast<const UnalignedOctet*>(from);
}
TRIBUTARY_INLINE void StoreTiles(float* to, Octet value) {
  *reinterpret_cast<UnalignedOctet*>(to) = value;
}

// A convolution that preserves the size of its images.
struct Problem {
  int64_t batch, inputs, outputs;  // Channels.
  int64_t height, width;

  int64_t tile_rows() const { return (height + 1) / 2; }
  int64_t tile_columns() const { return (width + 1) / 2; }
  int64_t tiles() const { return batch * tile_rows() * tile_columns(); }
  int64_t row_blocks() const { return (outputs + kRows - 1) / kRows; }
  // Distance between elements of the transformed tiles or kernels. The
  // additional cache line keeps the sixteen elements out of the same cache set.
  int64_t kernel_stride() const {
    return row_blocks() * inputs * kRows + kPadding;
  }
  int64_t input_stride() const { return kBlock * inputs + kPadding; }
  int64_t output_stride() const {
    return kBlock * row_blocks() * kRows + kPadding;
  }
  // Size of images with a border of zeros, wide enough for the last tile.
  int64_t padded_width() const { return 2 * tile_columns() + 2; }
};

// Partition of the scratch memory.
struct Room {
  Room(const Problem& p, Scratch& scratch) {
    const int64_t kernel_count = kElements * p.kernel_stride();
    const int64_t input_count = kElements * p.input_stride();
    const int64_t output_count = kElements * p.output_stride();
    kernels = scratch.Floats(kernel_count + input_count + output_count +
                             kElements * kBlock + 4 * p.padded_width());
    inputs = kernels + kernel_count;
    outputs = inputs + input_count;
    patches = outputs + output_count;
    lines = patches + kElements * kBlock;
  }

  float* kernels;  // 16 times [row_blocks, inputs, kRows]
  float* inputs;   // 16 times [kBlock / kPanel, inputs, kPanel]
  float* outputs;  // 16 times [kBlock / kPanel, outputs, kPanel]
  float* patches;  // [16, kBlock]: one channel's tiles.
  float* lines;    // [4, padded_width]: the image rows that a tile covers.
};

// Tiles of one row of one image.
struct Run {
  int64_t image, row, column;  // Position of the first tile.
  int64_t count;
  int64_t place;  // Index within the block.
};

// Calls visit(run) for the runs that cover tiles [begin, end).
template <typename Visit>
TRIBUTARY_INLINE void ForEachRun(const Problem& p, int64_t begin, int64_t end,
                                 const Visit& visit) {
  const int64_t columns = p.tile_columns();
  for (int64_t t = begin; t < end;) {
    const int64_t row = t / columns, column = t % columns;
    const int64_t count = std::min(columns - column, end - t);
    visit(Run{row / p.tile_rows(), row % p.tile_rows(), column, count,
              t - begin});
    t += count;
  }
}

// The kernel from input channel i to output channel o, of nine elements.
// Rotated by 180 degrees for backward.
struct Kernels {
  const float* weight;  // [outputs, inputs, 3, 3], or transposed.
  int64_t outputs_stride, inputs_stride;
  bool turned;
};

// G g G^T, with G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1].
TRIBUTARY_INLINE void TransformKernel(const float* g, bool turned,
                                      int64_t stride, float* to) {
  float half[4][3];  // G g
  for (int j = 0; j < 3; ++j) {
    const float a = turned ? g[8 - j] : g[j];
    const float b = turned ? g[5 - j] : g[3 + j];
    const float c = turned ? g[2 - j] : g[6 + j];
    half[0][j] = a;
    half[1][j] = 0.5f * ((a + c) + b);
    half[2][j] = 0.5f * ((a + c) - b);
    half[3][j] = c;
  }
  for (int i = 0; i < 4; ++i) {
    const float a = half[i][0], b = half[i][1], c = half[i][2];
    to[(4 * i + 0) * stride] = a;
    to[(4 * i + 1) * stride] = 0.5f * ((a + c) + b);
    to[(4 * i + 2) * stride] = 0.5f * ((a + c) - b);
    to[(4 * i + 3) * stride] = c;
  }
}

TRIBUTARY_INLINE void TransformKernels(const Problem& p, const Kernels& k,
                                       float* to) {
  const int64_t stride = p.kernel_stride();
  for (int64_t block = 0; block < p.row_blocks(); ++block) {
    for (int64_t i = 0; i < p.inputs; ++i) {
      for (int64_t r = 0; r < kRows; ++r) {
        float* place = to + (block * p.inputs + i) * kRows + r;
        const int64_t o = block * kRows + r;
        if (o < p.outputs) {
          TransformKernel(k.weight + o * k.outputs_stride + i * k.inputs_stride,
                          k.turned, stride, place);
        } else {
          for (int e = 0; e < kElements; ++e) place[e * stride] = 0;
        }
      }
    }
  }
}

// patches[4 r + s, place + j] = element (r, s) of the run's tile j.
TRIBUTARY_INLINE void CopyPatches(const Problem& p, const float* plane,
                                  const Run& run, const Room& room) {
  for (int r = 0; r < 4; ++r) {
    const int64_t row = 2 * run.row + r - 1;
    float* patches = room.patches + 4 * r * kBlock + run.place;
    if (row < 0 || row >= p.height) {
      for (int s = 0; s < 4; ++s) {
        std::fill_n(patches + s * kBlock, run.count, 0.0f);
      }
      continue;
    }
    float* line = room.lines + r * p.padded_width();
    line[0] = 0;
    std::memcpy(line + 1, plane + row * p.width, p.width * sizeof(float));
    std::fill(line + 1 + p.width, line + p.padded_width(), 0.0f);
    const float* first = line + 2 * run.column;
    for (int s = 0; s < 4; ++s) {
      for (int64_t j = 0; j < run.count; ++j) {
        patches[s * kBlock + j] = first[2 * j + s];
      }
    }
  }
}

// Computes B^T d B of every tile, with B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1
// 0 -1]. `to` is the channel's position in Room::inputs.
TRIBUTARY_INLINE void TransformPatches(const Problem& p, const float* patches,
                                       int64_t panels, float* to) {
  const int64_t element = p.input_stride();
  for (int64_t t = 0; t < panels * kPanel; t += kOctet) {
    Octet rows[4][4];
    for (int s = 0; s < 4; ++s) {
      const Octet a = LoadTiles(patches + s * kBlock + t),
                  b = LoadTiles(patches + (4 + s) * kBlock + t),
                  c = LoadTiles(patches + (8 + s) * kBlock + t),
                  d = LoadTiles(patches + (12 + s) * kBlock + t);
      rows[0][s] = a - c;
      rows[1][s] = b + c;
      rows[2][s] = c - b;
      rows[3][s] = b - d;
    }
    float* out = to + t / kPanel * kPanel * p.inputs + t % kPanel;
    for (int r = 0; r < 4; ++r) {
      const Octet* v = rows[r];
      StoreTiles(out + (4 * r + 0) * element, v[0] - v[2]);
      StoreTiles(out + (4 * r + 1) * element, v[1] + v[2]);
      StoreTiles(out + (4 * r + 2) * element, v[2] - v[1]);
      StoreTiles(out + (4 * r + 3) * element, v[1] - v[3]);
    }
  }
}

// Sums one panel over input channels, for kRows output channels: out[kRows,
// kPanel] = kernels[inputs, kRows]^T in[inputs, kPanel].
TRIBUTARY_INLINE void MultiplyPanel(int64_t inputs, const float* kernels,
                                    const float* in, float* out) {
  Octet sums[kRows][2] = {};
  for (int64_t i = 0; i < inputs; ++i) {
    const Octet low = LoadTiles(in + i * kPanel),
                high = LoadTiles(in + i * kPanel + kOctet);
    for (int r = 0; r < kRows; ++r) {
      const float factor = kernels[i * kRows + r];
      sums[r][0] += factor * low;
      sums[r][1] += factor * high;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    StoreTiles(out + r * kPanel, sums[r][0]);
    StoreTiles(out + r * kPanel + kOctet, sums[r][1]);
  }
}

TRIBUTARY_INLINE void Multiply(const Problem& p, const Room& room,
                               int64_t panels) {
  const int64_t rows = p.row_blocks() * kRows;
  for (int64_t e = 0; e < kElements; ++e) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      const float* in =
          room.inputs + e * p.input_stride() + panel * kPanel * p.inputs;
      float* out = room.outputs + e * p.output_stride() + panel * kPanel * rows;
      for (int64_t block = 0; block < p.row_blocks(); ++block) {
        const float* kernels =
            room.kernels + e * p.kernel_stride() + block * p.inputs * kRows;
        MultiplyPanel(p.inputs, kernels, in, out + block * kRows * kPanel);
      }
    }
  }
}

// Computes A^T m A of every tile, with A^T = [1 1 1 0; 0 1 -1 -1]. Element (u,
// v) of the results is written to quads[2 u + v, tile].
TRIBUTARY_INLINE void TransformBack(const Problem& p, const float* from,
                                    int64_t panels, float bias, float* quads) {
  const int64_t rows = p.row_blocks() * kRows, element = p.output_stride();
  for (int64_t t = 0; t < panels * kPanel; t += kOctet) {
    const float* m = from + t / kPanel * kPanel * rows + t % kPanel;
    Octet upper[4], lower[4];
    for (int s = 0; s < 4; ++s) {
      const Octet a = LoadTiles(m + s * element),
                  b = LoadTiles(m + (4 + s) * element),
                  c = LoadTiles(m + (8 + s) * element),
                  d = LoadTiles(m + (12 + s) * element);
      upper[s] = (a + b) + c;
      lower[s] = (b - c) - d;
    }
    StoreTiles(quads + t, (upper[0] + upper[1]) + upper[2] + bias);
    StoreTiles(quads + kBlock + t, (upper[1] - upper[2]) - upper[3] + bias);
    StoreTiles(quads + 2 * kBlock + t, (lower[0] + lower[1]) + lower[2] + bias);
    StoreTiles(quads + 3 * kBlock + t, (lower[1] - lower[2]) - lower[3] + bias);
  }
}

// Writes a run's results to their plane and drops elements beyond an odd side.
TRIBUTARY_INLINE void CopyQuads(const Problem& p, const float* quads,
                                const Run& run, float* plane) {
  for (int64_t u = 0; u < 2; ++u) {
    const int64_t row = 2 * run.row + u;
    if (row >= p.height) break;
    const float* left = quads + 2 * u * kBlock + run.place;
    const float* right = left + kBlock;
    float* to = plane + row * p.width + 2 * run.column;
    const int64_t whole = std::min(run.count, (p.width - 2 * run.column) / 2);
    for (int64_t j = 0; j < whole; ++j) {
      to[2 * j] = left[j];
      to[2 * j + 1] = right[j];
    }
    if (whole < run.count) to[2 * whole] = left[whole];
  }
}

// y = x convolved with kernels.
TRIBUTARY_MULTIVERSION
void Convolve(const Problem& problem, const Kernels& kernels, const float* x,
              const float* bias, const Room& rooms, float* y) {
  // Local copies let the compiler assume that stores do not change them.
  const Problem p = problem;
  const Room room = rooms;
  TransformKernels(p, kernels, room.kernels);
  const int64_t pixels = p.height * p.width;
  std::fill_n(room.patches, kElements * kBlock, 0.0f);
  for (int64_t begin = 0; begin < p.tiles(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, p.tiles());
    const int64_t panels = (end - begin + kPanel - 1) / kPanel;
    for (int64_t i = 0; i < p.inputs; ++i) {
      ForEachRun(
          p, begin, end, [&](const Run& run) __attribute__((always_inline)) {
            CopyPatches(p, x + (run.image * p.inputs + i) * pixels, run, room);
          });
      TransformPatches(p, room.patches, panels, room.inputs + i * kPanel);
    }
    Multiply(p, room, panels);
    for (int64_t o = 0; o < p.outputs; ++o) {
      TransformBack(p, room.outputs + o * kPanel, panels,
                    bias == nullptr ? 0.0f : bias[o], room.patches);
      ForEachRun(
          p, begin, end, [&](const Run& run) __attribute__((always_inline)) {
            CopyQuads(p, room.patches, run,
                      y + (run.image * p.outputs + o) * pixels);
          });
    }
  }
}

}  // namespace

bool TakesWinograd(const ConvolutionShape& s) {
  return s.kernel == 3 && s.stride == 1 && s.padding == 1;
}

bool SuitsWinograd(const ConvolutionShape& s) {
#if defined(__x86_64__)
  return TakesWinograd(s) && s.in_channels >= kLeastChannels &&
         s.out_channels >= kLeastChannels && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

void WinogradForward(const ConvolutionShape& s, const float* x,
                     const float* weight, const float* bias, Scratch& scratch,
                     float* y) {
  const Problem problem = {s.batch, s.in_channels, s.out_channels, s.in_height,
                           s.in_width};
  const Kernels kernels = {weight, 9 * s.in_channels, 9, /*turned=*/false};
  Convolve(problem, kernels, x, bias, Room(problem, scratch), y);
}

void WinogradBackwardInput(const ConvolutionShape& s, const float* dy,
                           const float* weight, Scratch& scratch, float* dx) {
  const Problem problem = {s.batch, s.out_channels, s.in_channels, s.in_height,
                           s.in_width};
  const Kernels kernels = {weight, 9, 9 * s.in_channels, /*turned=*/true};
  Convolve(problem, kernels, dy, /*bias=*/nullptr, Room(problem, scratch), dx);
}

}  // namespace tributary::cpu
