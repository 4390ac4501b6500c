#include <algorithm>

#include "common/cuda/launch.h"
#include "common/optimizer/cuda/square_sums.h"
#include "common/optimizer/cuda/square_sums_kernel.h"

namespace tributary::cuda {
namespace {

struct Group {
  SquareSums chunks[kSquareChunks];
};

// One block for each chunk.
__global__ void SumSquaresKernel(const Group group) {
  __shared__ SquareTile tiles[2];
  SumSquaresInBlock(group.chunks[blockIdx.x], tiles);
}

}  // namespace

cudaError_t FindSumKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, &SumSquaresKernel);
}

void SumSquares(Stream& stream, absl::Span<const SquareSums> chunks) {
  Group group;
  std::copy(chunks.begin(), chunks.end(), group.chunks);
  Launch(stream, "SumSquares", static_cast<int64_t>(chunks.size()),
         kBlockThreads, &SumSquaresKernel, group);
}

}  // namespace tributary::cuda
