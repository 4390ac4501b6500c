// Products of tiles of a head's matrices, for forward and backward attention.
// Uses ordinary arithmetic for float32 and tensor cores for bfloat16. For .cu
// files only.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCTS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/device/cuda/kernels/attention_tile.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/instructions.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {

__device__ inline float4 LoadFour(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ inline void StoreFour(const float (&values)[4], float* to) {
  *reinterpret_cast<float4*>(to) =
      make_float4(values[0], values[1], values[2], values[3]);
}
__device__ inline void StoreTwo(float first, float second, float* to) {
  *reinterpret_cast<float2*>(to) = make_float2(first, second);
}

// The shared memory of a block, and the products that use it. All threads of
// the block must call each function together. Below, i and j are in [0, 4), and
// (down, across) is the position of the thread (see attention_tile.h).
//
//   AddInner: products[i][j] += sum over d of a[a_row + 4 down + i, d]
//     b[b_row + 4 across + j, d]. Begins with a barrier, so the memory for
//     its operands may still be in use. Has another barrier before it returns.
//   StoreWeights: stores the thread's part of a tile of weights: row
//     4 down + i, columns 4 across + j. The tile must not be in use.
//   AddWeighted: sums[i][j] += sum over k < kTile of weights[4 down + i, k]
//     m[first_row + k, first_column + 4 across + j]. Begins with a barrier, so
//     weights may have been stored just before. Ends without a barrier:
//     weights are in use until the next barrier.
template <typename T>
class TileProducts;

// Implements TileProducts in float32.
template <>
class alignas(16) TileProducts<float> {
 public:
  __device__ void AddInner(const HeadMatrix<float>& a, int a_row,
                           const HeadMatrix<float>& b, int b_row,
                           float (&products)[4][4]) {
    float* const left = operands_;
    float* const right = operands_ + kTile * kOperandStride;
    for (int d = 0; d < a.size; d += kDepth) {
      __syncthreads();
      LoadOperand(a, a_row, d, /*interleaved=*/false, left);
      LoadOperand(b, b_row, d, /*interleaved=*/true, right);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; k += 4) {
        float4 x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[i] = LoadFour(left + (4 * Down() + i) * kOperandStride + k);
          y[i] = LoadFour(right + (i * kSide + Across()) * kOperandStride + k);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            products[i][j] += x[i].x * y[j].x;
            products[i][j] += x[i].y * y[j].y;
            products[i][j] += x[i].z * y[j].z;
            products[i][j] += x[i].w * y[j].w;
          }
        }
      }
    }
  }

  __device__ void StoreWeights(int i, const float (&values)[4]) {
    StoreFour(values, weights_ + (4 * Down() + i) * kStride + 4 * Across());
  }

  __device__ void AddWeighted(const HeadMatrix<float>& m, int first_row,
                              int first_column, float (&sums)[4][4]) {
    __syncthreads();
    for (int row = threadIdx.x / kTile; row < kTile;
         row += kTileThreads / kTile) {
      const int column = threadIdx.x % kTile;
      operands_[row * kStride + column] =
          ElementOrZero(m, first_row + row, first_column + column);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kTile; k += 4) {
      float4 w[4], v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        w[i] = LoadFour(weights_ + (4 * Down() + i) * kStride + k);
        v[i] = LoadFour(operands_ + (k + i) * kStride + 4 * Across());
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float row[4] = {w[i].x, w[i].y, w[i].z, w[i].w};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          sums[i][0] += row[n] * v[n].x;
          sums[i][1] += row[n] * v[n].y;
          sums[i][2] += row[n] * v[n].z;
          sums[i][3] += row[n] * v[n].w;
        }
      }
    }
  }

 private:
  // Number of columns of its operands that AddInner loads into shared memory at
  // a time.
  static constexpr int kDepth = 32;
  // Number of floats from one row to the next of an operand of AddInner in
  // shared memory. A quarter of kOperandStride is odd, so the float4s of eight
  // consecutive rows are in different banks of shared memory.
  static constexpr int kOperandStride = kDepth + 4;
  static constexpr int kStride = kTile + 4;
  static_assert(2 * kOperandStride >= kStride, "one operand is a tile wide");

  // Copies the tile of kTile rows and kDepth columns of m that begins at
  // (first_row, first_column) to `to`, with zeros outside of m. With
  // `interleaved`, row 4 * n + j of the tile (0 <= j < 4) is stored as row j *
  // kSide + n. Thread n uses the rows 4 * n to 4 * n + 3, so the rows that the
  // threads 0, 1, ... read at the same time are contiguous.
  __device__ static void LoadOperand(const HeadMatrix<float>& m, int first_row,
                                     int first_column, bool interleaved,
                                     float* to) {
    const int column = threadIdx.x % kDepth;
    for (int row = threadIdx.x / kDepth; row < kTile;
         row += kTileThreads / kDepth) {
      const int place = interleaved ? row % 4 * kSide + row / 4 : row;
      to[place * kOperandStride + column] =
          ElementOrZero(m, first_row + row, first_column + column);
    }
  }

  // Operands of a product: two matrices of [kTile, kOperandStride] for
  // AddInner, or one of [kTile, kStride] for AddWeighted.
  float operands_[2 * kTile * kOperandStride];
  float weights_[kTile * kStride];
};

// Implements TileProducts with operands (including weights) in bfloat16 and
// sums in float32.
//
// Each of the eight warps computes two of the sixteen 16 x 16 parts of a tile.
// The tensor core instructions, and not the layout of attention_tile.h,
// determine which elements of a part a thread holds. Add therefore
// redistributes the sums through shared memory.
template <>
class alignas(16) TileProducts<Bfloat16> {
 public:
  __device__ void AddInner(const HeadMatrix<Bfloat16>& a, int a_row,
                           const HeadMatrix<Bfloat16>& b, int b_row,
                           float (&products)[4][4]) {
    Sums sums;
    for (int d = 0; d < a.size; d += kTile) {
      __syncthreads();
      LoadTile(a, a_row, d, left_);
      LoadTile(b, b_row, d, right_);
      __syncthreads();
      const int depth =
          static_cast<int>(a.size - d < kTile ? a.size - d : kTile);
      for (int k = 0; k < depth; k += kPart) {
        uint32_t x[4];
        LoadMatrices(AddressOf(left_, PartRow(), k, /*rows_first=*/true), x);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          // The product needs the transpose of b. LoadMatrices loads it without
          // transposing, because the rows of b are the columns of its
          // transpose.
          uint32_t y[4];
          LoadMatrices(
              AddressOf(right_, PartColumn(n), k, /*rows_first=*/false), y);
          MultiplyPart(x, y, sums.part[n]);
        }
      }
    }
    Add(sums, products);
  }

  __device__ void StoreWeights(int i, const float (&values)[4]) {
    Bfloat16* const to = weights_ + (4 * Down() + i) * kStride + 4 * Across();
#pragma unroll
    for (int j = 0; j < 4; ++j) to[j] = values[j];
  }

  __device__ void AddWeighted(const HeadMatrix<Bfloat16>& m, int first_row,
                              int first_column, float (&result)[4][4]) {
    __syncthreads();
    LoadTile(m, first_row, first_column, left_);
    __syncthreads();
    Sums sums;
    for (int k = 0; k < kTile; k += kPart) {
      uint32_t w[4];
      LoadMatrices(AddressOf(weights_, PartRow(), k, /*rows_first=*/true), w);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        uint32_t v[4];
        LoadTransposedMatrices(
            AddressOf(left_, k, PartColumn(n), /*rows_first=*/true), v);
        MultiplyPart(w, v, sums.part[n]);
      }
    }
    Add(sums, result);
  }

 private:
  // Number of rows and columns of a part of a tile. Each warp computes two
  // parts.
  static constexpr int kPart = 16;
  static_assert(kTileThreads / kWarp * 2 == kTile / kPart * (kTile / kPart),
                "two parts for each warp");
  // Number of elements from one row of a tile to the next in shared memory.
  // With this number, eight consecutive rows are in different banks of shared
  // memory, and every row starts at a multiple of 16 bytes.
  static constexpr int kStride = kTile + 8;
  static constexpr int kSumStride = kTile + 4;
  // Number of elements that one vector load reads. Vector loads are used if
  // every row starts at a multiple of this number of elements.
  static constexpr int kVector = 8;
  struct alignas(16) Vector {
    Bfloat16 elements[kVector];
  };

  // The calling thread's elements of the two 16 x 16 parts of a tile that its
  // warp computes. part[n][h] is the result of MultiplyAdd for columns 8 h to 8
  // h + 7 of part n.
  struct Sums {
    float part[2][2][4] = {};
  };

  __device__ static int Warp() { return threadIdx.x / kWarp; }
  // The calling thread's warp computes two 16 x 16 parts of a tile. PartRow
  // returns the first row of both parts, and PartColumn the first column of
  // part n.
  __device__ static int PartRow() { return Warp() / 2 * kPart; }
  __device__ static int PartColumn(int n) {
    return (Warp() % 2 * 2 + n) * kPart;
  }

  // Returns the address that the lane passes to LoadMatrices: the address of a
  // row of one quarter of the 16 x 16 elements at (row, column). With
  // `rows_first`, the quarters are in the order top left, bottom left, top
  // right, bottom right; otherwise the middle two are exchanged.
  __device__ static SharedAddress AddressOf(const Bfloat16* matrix, int row,
                                            int column, bool rows_first) {
    const int lane = threadIdx.x % kWarp;
    const int odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
    row += lane % 8 + (rows_first ? odd : upper);
    column += rows_first ? upper : odd;
    return SharedAddressOf(matrix + row * kStride + column);
  }

  // Adds the product of two 16 x 16 matrices of bfloat16 to `sums`, with the
  // PTX instruction mma.m16n8k16: once for the left 8 columns of the second
  // matrix and of the result, then for the right 8. `a`, `b` and `sums` are the
  // calling lane's elements of the first matrix, the second matrix and the
  // result, in the layout of this instruction; in `b` and `sums`, the left half
  // comes first. Each word of `a` and `b` is two elements. All lanes of the
  // warp must call this function together.
  __device__ static void MultiplyPart(const uint32_t (&a)[4],
                                      const uint32_t (&b)[4],
                                      float (&sums)[2][4]) {
    MultiplyAdd(sums[0], a, b[0], b[1]);
    MultiplyAdd(sums[1], a, b[2], b[3]);
  }

  // Copies kTile rows and columns of m, starting at (first_row, first_column),
  // to `to`, with zeros outside of m.
  __device__ static void LoadTile(const HeadMatrix<Bfloat16>& m, int first_row,
                                  int first_column, Bfloat16* to) {
    const bool aligned = reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
                         m.stride % kVector == 0;
    constexpr int kVectors = kTile / kVector;
    for (int n = threadIdx.x; n < kTile * kVectors; n += kTileThreads) {
      const int row = n / kVectors, column = n % kVectors * kVector;
      const int from_row = first_row + row;
      const int from_column = first_column + column;
      Vector vector;
      if (aligned && from_row < m.count && from_column + kVector <= m.size) {
        vector = *reinterpret_cast<const Vector*>(
            m.data + static_cast<int64_t>(from_row) * m.stride + from_column);
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          vector.elements[i] = ElementOrZero(m, from_row, from_column + i);
        }
      }
      *reinterpret_cast<Vector*>(to + row * kStride + column) = vector;
    }
  }

  // Adds one tile to another. The threads of the block hold parts of both
  // tiles. `sums` is the calling thread's part of the first tile, in the layout
  // of the matrix instructions. `to` is its part of the second tile, 4 x 4
  // elements in the layout of attention_tile.h. All threads of the block must
  // call this function, because they exchange elements.
  __device__ void Add(const Sums& sums, float (&to)[4][4]) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float* const first = sums_ + (PartRow() + lane / 4) * kSumStride +
                             PartColumn(n) + 8 * h + lane % 4 * 2;
        StoreTwo(sums.part[n][h][0], sums.part[n][h][1], first);
        StoreTwo(sums.part[n][h][2], sums.part[n][h][3],
                 first + 8 * kSumStride);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 row =
          LoadFour(sums_ + (4 * Down() + i) * kSumStride + 4 * Across());
      to[i][0] += row.x;
      to[i][1] += row.y;
      to[i][2] += row.z;
      to[i][3] += row.w;
    }
  }

  alignas(16) Bfloat16 left_[kTile * kStride];
  alignas(16) Bfloat16 right_[kTile * kStride];
  alignas(16) Bfloat16 weights_[kTile * kStride];
  alignas(16) float sums_[kTile * kSumStride];
};

static_assert(sizeof(TileProducts<float>) <= 48 << 10 &&
                  sizeof(TileProducts<Bfloat16>) <= 48 << 10,
              "what every GPU grants without being asked");

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCTS_H_
