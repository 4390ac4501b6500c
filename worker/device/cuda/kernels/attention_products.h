// Products of tiles of a head's matrices, for forward and backward attention:
// element by element for float32, by tensor cores for bfloat16. For .cu files
// only.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_PRODUCTS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_PRODUCTS_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

#include "worker/device/cuda/kernels/attention_tile.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {

__device__ inline float4 LoadFour(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ inline void StoreFour(const float (&values)[4], float* to) {
  *reinterpret_cast<float4*>(to) =
      make_float4(values[0], values[1], values[2], values[3]);
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

// Products in float32.
template <>
class alignas(16) TileProducts<float> {
 public:
  __device__ void AddInner(const HeadMatrix<float>& a, int64_t a_row,
                           const HeadMatrix<float>& b, int64_t b_row,
                           float (&products)[4][4]) {
    float* const left = operands_;
    float* const right = operands_ + kTile * kOperandStride;
    for (int64_t d = 0; d < a.size; d += kDepth) {
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

  __device__ void AddWeighted(const HeadMatrix<float>& m, int64_t first_row,
                              int64_t first_column, float (&sums)[4][4]) {
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
  // Number of elements of a head that AddInner reads at once.
  static constexpr int kDepth = 32;
  // Number of floats from one row to the next. A quarter of kOperandStride is
  // odd, so the float4s of eight consecutive rows are in different banks.
  static constexpr int kOperandStride = kDepth + 4;
  static constexpr int kStride = kTile + 4;
  static_assert(2 * kOperandStride >= kStride, "one operand is a tile wide");

  // Copies kTile rows and kDepth columns of m, starting at (first_row,
  // first_column), to `to`, with zeros outside of m. With `interleaved`, row 4
  // n + j is stored as row j kSide + n, so that the rows 4 n + j of threads n =
  // 0, 1, ... are contiguous.
  __device__ static void LoadOperand(const HeadMatrix<float>& m,
                                     int64_t first_row, int64_t first_column,
                                     bool interleaved, float* to) {
    const int column = threadIdx.x % kDepth;
    for (int row = threadIdx.x / kDepth; row < kTile;
         row += kTileThreads / kDepth) {
      const int place = interleaved ? row % 4 * kSide + row / 4 : row;
      to[place * kOperandStride + column] =
          ElementOrZero(m, first_row + row, first_column + column);
    }
  }

  // Operands of a product: two of [kTile, kOperandStride], or one of [kTile,
  // kStride].
  float operands_[2 * kTile * kOperandStride];
  float weights_[kTile * kStride];
};

// Products with operands (including weights) in bfloat16 and sums in float32.
//
// Each of the eight warps computes two of the sixteen 16 x 16 parts of a tile.
// The hardware determines which elements of a part a thread holds, so the sums
// pass through shared memory.
template <>
class alignas(32) TileProducts<Bfloat16> {
 public:
  __device__ void AddInner(const HeadMatrix<Bfloat16>& a, int64_t a_row,
                           const HeadMatrix<Bfloat16>& b, int64_t b_row,
                           float (&products)[4][4]) {
    Sums sums;
    for (int64_t d = 0; d < a.size; d += kTile) {
      __syncthreads();
      LoadTile(a, a_row, d, left_);
      LoadTile(b, b_row, d, right_);
      __syncthreads();
      const int depth =
          static_cast<int>(a.size - d < kTile ? a.size - d : kTile);
      for (int k = 0; k < depth; k += kPart) {
        Factor<nvcuda::wmma::matrix_a, nvcuda::wmma::row_major> x;
        Load(left_ + PartRow() * kStride + k, x);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          // The rows of b are the columns of its transpose.
          Factor<nvcuda::wmma::matrix_b, nvcuda::wmma::col_major> y;
          Load(right_ + PartColumn(n) * kStride + k, y);
          nvcuda::wmma::mma_sync(sums.part[n], x, y, sums.part[n]);
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

  __device__ void AddWeighted(const HeadMatrix<Bfloat16>& m, int64_t first_row,
                              int64_t first_column, float (&result)[4][4]) {
    __syncthreads();
    LoadTile(m, first_row, first_column, left_);
    __syncthreads();
    Sums sums;
    for (int k = 0; k < kTile; k += kPart) {
      Factor<nvcuda::wmma::matrix_a, nvcuda::wmma::row_major> w;
      Load(weights_ + PartRow() * kStride + k, w);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        Factor<nvcuda::wmma::matrix_b, nvcuda::wmma::row_major> v;
        Load(left_ + k * kStride + PartColumn(n), v);
        nvcuda::wmma::mma_sync(sums.part[n], w, v, sums.part[n]);
      }
    }
    Add(sums, result);
  }

 private:
  // Side of the matrices that one instruction of a warp multiplies.
  static constexpr int kPart = 16;
  static_assert(kTileThreads / kWarp * 2 == kTile / kPart * (kTile / kPart),
                "two parts for each warp");
  // Number of elements from one row to the next. Eight consecutive rows are in
  // different banks, and every part starts at a multiple of 32 bytes.
  static constexpr int kStride = kTile + 8;
  static constexpr int kSumStride = kTile + 4;
  // Number of elements that one vector load reads. Vector loads are used if
  // every row starts at a multiple of this number of elements.
  static constexpr int kVector = 8;
  struct alignas(16) Vector {
    Bfloat16 elements[kVector];
  };

  template <typename Use, typename Order>
  using Factor =
      nvcuda::wmma::fragment<Use, kPart, kPart, kPart, __nv_bfloat16, Order>;

  // Sums of the warp's two parts.
  struct Sums {
    __device__ Sums() {
      for (auto& one : part) nvcuda::wmma::fill_fragment(one, 0.0f);
    }
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kPart, kPart, kPart,
                           float>
        part[2];
  };

  __device__ static int Warp() { return threadIdx.x / kWarp; }
  // Return the first row of the warp's parts in a tile, and the first column of
  // part n.
  __device__ static int PartRow() { return Warp() / 2 * kPart; }
  __device__ static int PartColumn(int n) {
    return (Warp() % 2 * 2 + n) * kPart;
  }

  template <typename Fragment>
  __device__ static void Load(const Bfloat16* from, Fragment& to) {
    nvcuda::wmma::load_matrix_sync(
        to, reinterpret_cast<const __nv_bfloat16*>(from), kStride);
  }

  // Copies kTile rows and columns of m, starting at (first_row, first_column),
  // to `to`, with zeros outside of m.
  __device__ static void LoadTile(const HeadMatrix<Bfloat16>& m,
                                  int64_t first_row, int64_t first_column,
                                  Bfloat16* to) {
    const bool aligned = reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
                         m.stride % kVector == 0;
    constexpr int kVectors = kTile / kVector;
    for (int n = threadIdx.x; n < kTile * kVectors; n += kTileThreads) {
      const int row = n / kVectors, column = n % kVectors * kVector;
      const int64_t from_row = first_row + row;
      const int64_t from_column = first_column + column;
      Vector vector;
      if (aligned && from_row < m.count && from_column + kVector <= m.size) {
        vector = *reinterpret_cast<const Vector*>(m.data + from_row * m.stride +
                                                  from_column);
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          vector.elements[i] = ElementOrZero(m, from_row, from_column + i);
        }
      }
      *reinterpret_cast<Vector*>(to + row * kStride + column) = vector;
    }
  }

  // Adds the calling thread's part of the tile `sums` to `to`.
  __device__ void Add(const Sums& sums, float (&to)[4][4]) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      nvcuda::wmma::store_matrix_sync(
          sums_ + PartRow() * kSumStride + PartColumn(n), sums.part[n],
          kSumStride, nvcuda::wmma::mem_row_major);
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

  alignas(32) Bfloat16 left_[kTile * kStride];
  alignas(32) Bfloat16 right_[kTile * kStride];
  alignas(32) Bfloat16 weights_[kTile * kStride];
  alignas(32) float sums_[kTile * kSumStride];
};

static_assert(sizeof(TileProducts<float>) <= 48 << 10 &&
                  sizeof(TileProducts<Bfloat16>) <= 48 << 10,
              "what every GPU grants without being asked");

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_PRODUCTS_H_
