// The chunks of a worker that computes stages of a pipeline.
#ifndef TRIBUTARY_WORKER_PROCESS_STAGE_CHUNKS_H_
#define TRIBUTARY_WORKER_PROCESS_STAGE_CHUNKS_H_

#include "worker/exchange/worker_chunks.h"
#include "worker/models/stages/stage_split.h"

namespace tributary {

// Returns the chunks of a worker that computes the stages [begin, end) of
// `split`, of which there must be at least one: those with parameters that the
// stages read, and those to which they contribute.
WorkerChunks StageChunks(const StageSplit& split, int begin, int end);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_STAGE_CHUNKS_H_
