// Default numbers of threads when all processes of a job run on one machine.
#ifndef TRIBUTARY_DEPLOY_FLAGS_THREAD_COUNTS_H_
#define TRIBUTARY_DEPLOY_FLAGS_THREAD_COUNTS_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// Returns the number of threads, at least 1, of each of `servers` servers that
// share this machine's cores equally.
int ServerThreads(int servers);

// Returns the number of compute threads, at least 1 and at most `wanted`, that
// a worker of a job with `workers` workers can use: at most one per micro-batch
// that it computes in a step.
int UsefulThreads(const JobSpec& job, int64_t workers, int64_t wanted);

// Returns the number of compute threads of each of `workers` workers: an equal
// share of this machine's cores, or kThreadsPerGpu on a GPU. The result is at
// least 1, and otherwise at most the number of micro-batches that a worker
// computes in a step. That number is an equal share of the micro-batches
// (rounded up), or all of them if each worker computes whole batches (see
// ExchangeTraits).
int DefaultWorkerThreads(const JobSpec& job, int64_t workers,
                         const DeviceName& device);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_THREAD_COUNTS_H_
