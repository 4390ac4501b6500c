// The chunks with which a worker has to do.
#ifndef TRIBUTARY_WORKER_EXCHANGE_WORKER_CHUNKS_H_
#define TRIBUTARY_WORKER_EXCHANGE_WORKER_CHUNKS_H_

#include "common/parameters/chunk_ranges.h"

namespace tributary {

// The chunks of a worker; by default all chunks of the model. Those of a worker
// that computes some stages of a pipeline are the chunks of these stages.
struct WorkerChunks {
  ChunkRanges read;  // Those whose weights the worker receives.
  // Those to which it contributes: [begin, end). `end` 0 stands for all.
  int begin = 0;
  int end = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_WORKER_CHUNKS_H_
