// Writes decoded rows to a file.
#ifndef TRIBUTARY_WORKER_DATA_CACHE_WRITE_ROW_FILE_H_
#define TRIBUTARY_WORKER_DATA_CACHE_WRITE_ROW_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "worker/data/data_set.h"
#include "worker/data/formats/feature_reader.h"

namespace tributary {

// Writes all samples of `data`, which are rows that do not depend on the epoch,
// to a new file `path`, so that RowFile returns the same bits. `reader` has the
// features of the job. `path` has a folder. The file appears when it is
// complete and on the disk; what a killed writer has left is written again.
// Returns Unavailable if another process is writing the file, ResourceExhausted
// if the rows would take more space than they leave free, FailedPrecondition if
// the file system has no locks (flock), and the system's error if the file
// cannot be written. Blocks on the disk.
absl::Status WriteRowFile(const DataSet& data, const FeatureReader& reader,
                          const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CACHE_WRITE_ROW_FILE_H_
