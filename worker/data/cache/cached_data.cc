#include "worker/data/cache/cached_data.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "worker/data/cache/row_file.h"
#include "worker/data/cache/write_row_file.h"
#include "worker/data/files/file_stamp.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/image_data_set.h"

namespace tributary {
namespace {

using Opened = absl::StatusOr<std::unique_ptr<DataSet>>;

// Appends a message to `key`, equal messages with equal bytes.
void Append(const google::protobuf::Message& message, std::string* key) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  absl::StrAppend(key, bytes.size(), ":", bytes);
}

// Returns the name of the file of the job's rows: a hash of all on which they
// depend. Returns nullopt if a file does not exist.
absl::optional<std::string> RowFileName(const JobSpec& job) {
  std::vector<std::string> paths;
  if (job.data().has_csv()) {
    paths.push_back(job.data().csv().train());
    if (job.data().csv().has_test()) paths.push_back(job.data().csv().test());
  } else {
    const CriteoSpec& criteo = job.data().criteo();
    paths.assign(criteo.train().begin(), criteo.train().end());
    paths.insert(paths.end(), criteo.test().begin(), criteo.test().end());
  }
  std::string key;
  Append(job.data(), &key);
  // Which labels and which features the rows have. Tables and the model's sizes
  // do not change rows.
  absl::StrAppend(&key, job.model().loss(), ":", job.model().kind_case(), ":");
  for (const SparseFeatureSpec& feature : job.sparse().feature()) {
    Append(feature, &key);
  }
  for (const std::string& path : paths) {
    const absl::optional<uint64_t> stamp = FileStamp(path);
    if (!stamp.has_value()) return absl::nullopt;
    absl::StrAppend(&key, *stamp, ":");
  }
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return absl::StrFormat("rows-%016x%016x", hash.high64, hash.low64);
}

void Warn(const SharedCache& cache, const absl::Status& status) {
  cache.warn(
      absl::StrCat(status.message(), "; each process decodes the data itself"));
}

Opened OpenRows(const JobSpec& job, const DataOpener& open,
                const SharedCache& cache) {
  const absl::StatusOr<FeatureReader> reader = FeatureReader::Create(
      job.sparse(), [](const std::string&, const std::string&) {
        return absl::StatusOr<int64_t>(0);
      });
  const absl::optional<std::string> name = RowFileName(job);
  // `open` returns the error.
  if (!reader.ok() || !name.has_value()) return open(job);
  const std::string path = absl::StrCat(cache.folder, "/", *name);
  absl::StatusOr<std::unique_ptr<RowFile>> kept = RowFile::Open(path, *reader);
  if (kept.ok()) return *std::move(kept);
  if (!absl::IsNotFound(kept.status())) {
    Warn(cache, kept.status());
    return open(job);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> decoded, open(job));
  // The files may have changed meanwhile.
  if (RowFileName(job) != name) return decoded;
  const absl::Status written = WriteRowFile(*decoded, *reader, path);
  if (absl::IsUnavailable(written)) return decoded;
  if (!written.ok()) {
    Warn(cache, written);
    return decoded;
  }
  kept = RowFile::Open(path, *reader);
  if (kept.ok()) return *std::move(kept);
  Warn(cache, kept.status());
  return decoded;
}

Opened OpenImages(const JobSpec& job, const SharedCache& cache) {
  const int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return ImageDataSet::Open(job.data().images(), job.seed(), threads, &cache);
}

}  // namespace

bool KeepsAllWhenOpened(const JobSpec& job) {
  return job.data().has_csv() || job.data().has_criteo();
}

DataOpener CacheData(DataOpener open, SharedCache cache) {
  return [open = std::move(open),
          cache = std::move(cache)](const JobSpec& job) -> Opened {
    if (!KeepsAllWhenOpened(job) && !job.data().has_images()) return open(job);
    std::error_code error;
    std::filesystem::create_directories(cache.folder, error);
    if (error) {
      Warn(cache,
           absl::UnknownError(absl::StrCat(
               cache.folder, ": cannot create the folder: ", error.message())));
      return open(job);
    }
    return job.data().has_images() ? OpenImages(job, cache)
                                   : OpenRows(job, open, cache);
  };
}

}  // namespace tributary
