#include "common/plan/row_traffic.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/codec/row_codec.h"
#include "common/plan/memory_account.h"

namespace tributary {

ChunkMessages RowTraffic(const JobSpec& job) {
  ChunkMessages batch;
  const auto samples = static_cast<double>(job.batch().global());
  for (const SparseFeatureSpec& feature : job.sparse().feature()) {
    for (const SparseTableSpec& table : job.sparse().table()) {
      if (table.name() != feature.table()) continue;
      const auto row =
          static_cast<double>(EncodedRowBytes(RowEncoding(job), table.dim()));
      constexpr double kKey = sizeof(uint64_t);
      batch.up += samples * (kKey + kKey + row);
      batch.down += samples * row;
    }
  }
  return batch;
}

std::string DescribeRowTraffic(const JobSpec& job) {
  if (!job.has_sparse()) return "";
  const ChunkMessages rows = RowTraffic(job);
  return absl::StrCat(
      "rows of a step: at most ", FormatMemory(static_cast<int64_t>(rows.up)),
      " to the servers, ", FormatMemory(static_cast<int64_t>(rows.down)),
      " to the workers\n");
}

}  // namespace tributary
