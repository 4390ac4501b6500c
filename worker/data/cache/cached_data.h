// Data sets whose decoded samples several processes share.
#ifndef TRIBUTARY_WORKER_DATA_CACHE_CACHED_DATA_H_
#define TRIBUTARY_WORKER_DATA_CACHE_CACHED_DATA_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/files/shared_cache.h"

namespace tributary {

// Opens the data set of a job.
using DataOpener =
    std::function<absl::StatusOr<std::unique_ptr<DataSet>>(const JobSpec&)>;

// Returns a function that opens the same data sets as `open`, with the same
// bits, and keeps what must be decoded in files of the folder of `cache`, which
// it creates:
// - rows of data.csv and data.criteo, which later calls, also those of other
//   processes, map into memory instead of parsing the files (RowFile);
// - pictures of folders and archives (CachedPictures).
// Changed files are decoded again. If data cannot be kept, warns and opens the
// data set as `open` does. Thread-safe.
DataOpener CacheData(DataOpener open, SharedCache cache);

// Returns true if the first call for this job decodes and keeps all of the
// data, so that it is worth a call before several processes need them.
bool KeepsAllWhenOpened(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CACHE_CACHED_DATA_H_
