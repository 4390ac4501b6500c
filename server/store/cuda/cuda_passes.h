// ChunkPass on an NVIDIA GPU: weights and the optimizer's state are in its
// memory; contributions are copied there from where they are, and new weights
// back to where the exchange reads them.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_CUDA_PASSES_H_
#define TRIBUTARY_SERVER_STORE_CUDA_CUDA_PASSES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/chunk_pass.h"

namespace tributary {

// Whether GPU number `ordinal` as CUDA counts them (from 0) can be used.
// NotFound where there are fewer; FailedPrecondition where there is no GPU or
// no driver, where this build has no code for that GPU, and in a build without
// CUDA.
absl::Status CheckCudaPasses(int ordinal);

// As a ChunkPassMaker. `pass_streams`, at least 1, is how many chunks can be
// worked at at a time, each with a stream and working memory of its own: one
// for each thread that calls. A thread that finds none waits for another one's
// pass.
//
// Later errors of the GPU are those of ChunkPass. They name the operation, the
// GPU and CUDA's error.
absl::StatusOr<ChunkPasses> MakeCudaPasses(int ordinal, int pass_streams,
                                           const ChunkPassPlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CUDA_CUDA_PASSES_H_
