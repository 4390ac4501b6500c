#include "common/plan/row_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/row_rule.h"

namespace tributary {
namespace {

// Of the index, and of slabs that are not full. With the header of a row, 29
// bytes were measured besides values and state.
constexpr int64_t kIndexBytes = 13;

int64_t FloatBytes(int64_t elements) {
  return elements * static_cast<int64_t>(sizeof(float));
}

// Returns the table of a feature. The job is valid.
const SparseTableSpec& TableOf(const SparseSpec& sparse,
                               const SparseFeatureSpec& feature) {
  return *std::find_if(sparse.table().begin(), sparse.table().end(),
                       [&](const SparseTableSpec& table) {
                         return table.name() == feature.table();
                       });
}

// Returns the bytes of the keys and values that one sample reads.
int64_t SampleBytes(const SparseSpec& sparse) {
  int64_t bytes = 0;
  for (const SparseFeatureSpec& feature : sparse.feature()) {
    bytes += static_cast<int64_t>(sizeof(uint64_t)) +
             FloatBytes(TableOf(sparse, feature).dim());
  }
  return bytes;
}

// Returns the most rows of a table on one server; 0: no maximum.
int64_t MostRows(const SparseTableSpec& table, int servers) {
  if (table.capacity() == 0) return 0;
  const int64_t of_bucket =
      (table.capacity() + table.buckets() - 1) / table.buckets();
  return of_bucket * ((table.buckets() + servers - 1) / servers);
}

}  // namespace

int64_t RowBytes(const SparseTableSpec& table) {
  const auto rule = RowRule::Create(table);
  RowLayout layout;
  layout.dim = table.dim();
  layout.state = rule.ok() ? rule->StateElements(table.dim()) : 0;
  return layout.bytes() + kIndexBytes;
}

int64_t ServerTableBytes(const JobSpec& job, int servers) {
  int64_t total = 0;
  for (const SparseTableSpec& table : job.sparse().table()) {
    int64_t bytes = MostRows(table, servers) * RowBytes(table);
    if (table.memory_bytes() > 0) {
      bytes = bytes == 0 ? table.memory_bytes()
                         : std::min(bytes, table.memory_bytes());
    }
    total += bytes;
  }
  return job.recovery().journal() ? 2 * total : total;
}

int64_t ServerStepRowBytes(const JobSpec& job, int servers) {
  // What was received and its sum, and 2 fixed_lag + 1 earlier versions.
  const int64_t earlier = 2 * job.sparse().fixed_lag() + 1;
  int64_t copies = 2 + earlier;
  // Earlier versions of the replica, what both need to take the last step back,
  // and what the step has changed: as it is sent, and as it is received.
  if (job.recovery().journal()) copies += earlier + 4;
  return copies * job.batch().global() * SampleBytes(job.sparse()) / servers;
}

int64_t WorkerRowBytes(const JobSpec& job, int64_t micro_batches,
                       int64_t arenas, int threads) {
  const int64_t samples = job.batch().global() / job.batch().micro_batches();
  // The rows of this step and of the next, sums of gradients, and the vectors
  // and their gradients of what is computed.
  return (2 * micro_batches + arenas + 2 * threads) * samples *
         SampleBytes(job.sparse());
}

std::string DescribeTables(const SparseSpec& sparse) {
  std::string text;
  for (const SparseTableSpec& table : sparse.table()) {
    absl::StrAppend(&text, "table ", table.name(), ": ", RowBytes(table),
                    " bytes a row, ");
    if (table.capacity() > 0) {
      absl::StrAppend(&text, "at most ", table.capacity(), " rows\n");
    } else if (table.memory_bytes() > 0) {
      absl::StrAppend(&text, "at most ", table.memory_bytes(),
                      " bytes on each server\n");
    } else {
      absl::StrAppend(&text,
                      "which are not counted: set capacity or memory_bytes\n");
    }
  }
  return text;
}

}  // namespace tributary
