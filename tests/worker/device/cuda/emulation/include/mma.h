// Replaces CUDA's header of the same name: matrix products of a warp, which
// lane 0 computes for the whole warp. The fragments of the other lanes have
// unspecified contents, because the hardware does not specify which lane holds
// which element.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_MMA_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_MMA_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major };

// A matrix of a product. Lane 0 holds all elements, in row-major order.
template <typename Use, int kM, int kN, int kK, typename T,
          typename Order = void>
class fragment {
  static constexpr int kRows = std::is_same_v<Use, matrix_b> ? kK : kM;
  static constexpr int kColumns = std::is_same_v<Use, matrix_a> ? kK : kN;

 public:
  float elements[kRows][kColumns];
};

// Ends the process unless `memory` is aligned to 32 bytes and `stride`, in
// bytes, is a multiple of 16, as the instructions require.
inline void CheckMemory(const void* memory, int64_t stride) {
  if (reinterpret_cast<uintptr_t>(memory) % 32 == 0 && stride % 16 == 0) return;
  std::fprintf(stderr, "a matrix that a warp cannot load or store\n");
  std::abort();
}

template <typename Fragment>
void fill_fragment(Fragment& fragment, float value) {
  for (auto& row : fragment.elements) {
    for (float& element : row) element = value;
  }
}

template <typename Use, int kM, int kN, int kK, typename T, typename Order>
void load_matrix_sync(fragment<Use, kM, kN, kK, T, Order>& to, const T* from,
                      unsigned stride) {
  CheckMemory(from, static_cast<int64_t>(stride * sizeof(T)));
  if (emulated_gpu::Lane() != 0) return;
  int row = 0;
  for (auto& elements : to.elements) {
    int column = 0;
    for (float& element : elements) {
      element = from[std::is_same_v<Order, row_major> ? row * stride + column
                                                      : column * stride + row];
      ++column;
    }
    ++row;
  }
}

template <int kM, int kN, int kK, typename T, typename OrderA, typename OrderB>
void mma_sync(fragment<accumulator, kM, kN, kK, float>& d,
              const fragment<matrix_a, kM, kN, kK, T, OrderA>& a,
              const fragment<matrix_b, kM, kN, kK, T, OrderB>& b,
              const fragment<accumulator, kM, kN, kK, float>& c) {
  if (emulated_gpu::Lane() != 0) return;
  d = c;
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kK; ++k) {
      for (int j = 0; j < kN; ++j) {
        d.elements[i][j] += a.elements[i][k] * b.elements[k][j];
      }
    }
  }
}

template <int kM, int kN, int kK>
void store_matrix_sync(float* to,
                       const fragment<accumulator, kM, kN, kK, float>& from,
                       unsigned stride, layout_t) {
  CheckMemory(to, static_cast<int64_t>(stride * sizeof(float)));
  if (emulated_gpu::Lane() != 0) return;
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) to[i * stride + j] = from.elements[i][j];
  }
}

}  // namespace nvcuda::wmma

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_MMA_H_
