// Implements ChunkPass on an NVIDIA GPU. Weights and the optimizer's state are
// in GPU memory. Contributions in host memory are copied to the GPU. If any
// worker reads the weights from host memory, new weights are copied back there.
#ifndef TRIBUTARY_COMMON_UPDATE_CUDA_CUDA_PASSES_H_
#define TRIBUTARY_COMMON_UPDATE_CUDA_CUDA_PASSES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/update/chunk_pass.h"

namespace tributary {

// Returns OK if GPU `ordinal` (CUDA's number, from 0) can be used. Returns
// NotFound if there are GPUs but none with this number. Returns
// FailedPrecondition if there is no GPU or driver, or if this build has no CUDA
// or no code for that GPU. Returns other errors of CUDA as Internal or
// ResourceExhausted.
absl::Status CheckCudaPasses(int ordinal);

// Creates the passes on GPU `ordinal`; see ChunkPassMaker. `pass_streams` (at
// least 1) is the number of chunks, or groups of chunks, that can be processed
// at the same time, each with its own CUDA stream and working memory. Set it to
// the number of threads that call the passes; a thread that finds no free
// stream waits for one.
//
// The methods of the returned ChunkPasses return errors that name the
// operation, the GPU and CUDA's error.
absl::StatusOr<ChunkPasses> MakeCudaPasses(int ordinal, int pass_streams,
                                           const ChunkPassPlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CUDA_CUDA_PASSES_H_
