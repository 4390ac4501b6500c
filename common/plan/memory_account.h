// Computes the host memory that the servers and workers of a job need.
#ifndef TRIBUTARY_COMMON_PLAN_MEMORY_ACCOUNT_H_
#define TRIBUTARY_COMMON_PLAN_MEMORY_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// A server of a job. `job` must be resolved, and outlive this struct.
struct ServerLoad {
  const JobSpec& job;
  // Number of elements that the server holds: of its chunks, or of the whole
  // model if workers update the weights.
  int64_t elements = 0;
  int workers = 1;
  // True if workers pass gradients in memory that they share with the server.
  bool shares_memory = true;
  // Memory for the rows of tables; see row_memory.h.
  int64_t row_bytes = 0;
};

// Returns the memory that a server needs at most, to within a few percent.
// Assumes that the job writes checkpoints, as all jobs do at their end.
MemoryAccount ServerMemory(const ServerLoad& load);

// A worker that computes the whole model on the CPU. `job` must be resolved,
// and outlive this struct.
struct WorkerLoad {
  const JobSpec& job;
  int64_t elements = 0;  // Of the whole model.
  int workers = 1;
  int threads = 1;  // Compute threads.
  // Micro-batches that the worker computes in a step.
  int64_t micro_batches = 1;
  // True if the worker reads the weights in memory that the server shares.
  bool shares_memory = true;
  // Memory of one compute thread (see ModelMemory::activation_bytes and
  // Device::workspace_bytes), and of the worker's data.
  int64_t activation_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t data_bytes = 0;
};

// Returns the memory that a worker needs at most.
MemoryAccount WorkerMemory(const WorkerLoad& load);

// Returns the number of gradient arenas (buffers for the gradients of the whole
// model) that a worker uses at a time which computes `micro_batches`
// micro-batches of a step with `threads` threads, and adds them up along the
// reduction tree.
int64_t GradientArenas(int64_t micro_batches, int threads);

// Returns true if a worker and the servers of the job, on one host, can share
// memory: gradients for kGradients, also weights for kWeights.
enum class SharedPart { kGradients, kWeights };
bool SharesMemory(const JobSpec& job, SharedPart part);

// Returns the fields of the account with their names.
std::vector<std::pair<const char*, int64_t>> MemoryParts(
    const MemoryAccount& account);
int64_t TotalBytes(const MemoryAccount& account);
void Add(const MemoryAccount& from, MemoryAccount* to);
// Returns the parts that are not 0, largest first, such as "gradients 302.0 MB,
// weights 201.6 MB".
std::string DescribeMemory(const MemoryAccount& account);
// Formats a number of bytes, such as "1.2 GB", "3.4 MB" or "1 byte".
std::string FormatMemory(int64_t bytes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_MEMORY_ACCOUNT_H_
