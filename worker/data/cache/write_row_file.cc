#include "worker/data/cache/write_row_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "worker/data/cache/decoded_row_layout.h"
#include "worker/data/files/shared_cache.h"

namespace tributary {
namespace {

constexpr int64_t kBlockRows = 4096;
constexpr size_t kBufferBytes = size_t{1} << 20;

// Appends to a file.
class Output {
 public:
  Output(int file, const std::string& path) : file_(file), path_(path) {}

  absl::Status Append(const void* bytes, size_t count) {
    buffer_.append(static_cast<const char*>(bytes), count);
    appended_ += count;
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }
  // Appends zeros up to the next multiple of 8 bytes.
  absl::Status Pad() {
    constexpr char kZeros[8] = {};
    return Append(kZeros, (8 - appended_ % 8) % 8);
  }
  absl::Status Flush() {
    size_t done = 0;
    while (done < buffer_.size()) {
      const ssize_t written =
          write(file_, buffer_.data() + done, buffer_.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return FileError(written < 0 ? errno : ENOSPC, "cannot write", path_);
      }
      done += static_cast<size_t>(written);
    }
    buffer_.clear();
    return absl::OkStatus();
  }

 private:
  const int file_;
  const std::string path_;
  std::string buffer_;
  size_t appended_ = 0;
};

// Calls use(batch) for the samples of the training part (0) or the held-out
// part (1), a block at a time.
absl::Status ForEachBlock(
    const DataSet& data, int part,
    const std::function<absl::Status(const Batch&)>& use) {
  const int64_t rows =
      part == 0 ? data.train_samples() : data.evaluation_samples();
  Batch batch;
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = std::min(rows, begin + kBlockRows);
    if (part == 0) {
      std::vector<int64_t> indexes(static_cast<size_t>(end - begin));
      std::iota(indexes.begin(), indexes.end(), begin);
      data.ReadTrain(/*epoch=*/0, indexes, &batch);
    } else {
      data.ReadEvaluation(begin, end, &batch);
    }
    TRIBUTARY_RETURN_IF_ERROR(batch.error);
    TRIBUTARY_RETURN_IF_ERROR(use(batch));
  }
  return absl::OkStatus();
}

absl::StatusOr<DecodedRowHeader> HeaderOf(const DataSet& data,
                                          const FeatureReader& reader) {
  Batch first;
  data.ReadTrain(/*epoch=*/0, {0}, &first);
  TRIBUTARY_RETURN_IF_ERROR(first.error);
  DecodedRowHeader header;
  header.rows[0] = data.train_samples();
  header.rows[1] = data.evaluation_samples();
  header.features = data.info().sample_shape[0];
  header.classes = data.info().classes;
  header.labels = first.labels.empty() ? 0 : 1;
  header.values = first.values.empty() ? 0 : 1;
  header.key_features = static_cast<int64_t>(reader.size());
  for (size_t i = 0; i < reader.size(); ++i) {
    header.one_key_features += reader.HasOneKey(i) ? 1 : 0;
  }
  header.encoding_bytes = static_cast<int64_t>(data.encoding().size());
  header.fingerprint = data.fingerprint();
  return header;
}

absl::Status AppendRecords(const DataSet& data, int part,
                           const FeatureReader& reader,
                           const DecodedRowHeader& header, Output* output) {
  const DecodedRowLayout layout(header);
  std::string record(static_cast<size_t>(layout.record_bytes), '\0');
  const auto features = static_cast<size_t>(header.features);
  return ForEachBlock(data, part, [&](const Batch& batch) {
    for (size_t row = 0; row < static_cast<size_t>(batch.samples); ++row) {
      char* const to = record.data();
      if (features > 0) {
        std::memcpy(to, &batch.features[row * features],
                    features * sizeof(float));
      }
      if (header.labels > 0) {
        std::memcpy(to + layout.label_at, &batch.labels[row], sizeof(int32_t));
      }
      if (header.values > 0) {
        std::memcpy(to + layout.value_at, &batch.values[row], sizeof(float));
      }
      char* key = to + layout.keys_at;
      for (size_t i = 0; i < reader.size(); ++i) {
        if (!reader.HasOneKey(i)) continue;
        std::memcpy(key, &batch.feature_keys[i].keys[row], sizeof(uint64_t));
        key += sizeof(uint64_t);
      }
      TRIBUTARY_RETURN_IF_ERROR(output->Append(record.data(), record.size()));
    }
    return absl::OkStatus();
  });
}

// Appends the keys of a feature that has any number of them in each row.
absl::Status AppendKeys(const DataSet& data, int part, size_t feature,
                        Output* output) {
  int64_t before = 0;
  TRIBUTARY_RETURN_IF_ERROR(ForEachBlock(data, part, [&](const Batch& batch) {
    const FeatureKeys& keys = batch.feature_keys[feature];
    for (const int64_t end : keys.ends) {
      const int64_t sum = before + end;
      TRIBUTARY_RETURN_IF_ERROR(output->Append(&sum, sizeof(sum)));
    }
    before += static_cast<int64_t>(keys.keys.size());
    return absl::OkStatus();
  }));
  return ForEachBlock(data, part, [&](const Batch& batch) {
    const std::vector<uint64_t>& keys = batch.feature_keys[feature].keys;
    return output->Append(keys.data(), keys.size() * sizeof(uint64_t));
  });
}

// Returns the size of the file, except the keys of features with any number of
// them.
int64_t BytesOf(const DecodedRowHeader& header) {
  const int64_t several = header.key_features - header.one_key_features;
  return (header.rows[0] + header.rows[1]) *
         (DecodedRowLayout(header).record_bytes + several * 8);
}

absl::Status WriteAll(const DataSet& data, const FeatureReader& reader,
                      const std::string& path, Output* output) {
  TRIBUTARY_ASSIGN_OR_RETURN(const DecodedRowHeader header,
                             HeaderOf(data, reader));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckSpace(FolderOf(path), /*kept=*/0, BytesOf(header)));
  TRIBUTARY_RETURN_IF_ERROR(output->Append(&header, sizeof(header)));
  for (size_t i = 0; i < reader.size(); ++i) {
    const char one_key = reader.HasOneKey(i) ? 1 : 0;
    TRIBUTARY_RETURN_IF_ERROR(output->Append(&one_key, 1));
  }
  TRIBUTARY_RETURN_IF_ERROR(output->Pad());
  const std::string encoding = data.encoding();
  TRIBUTARY_RETURN_IF_ERROR(output->Append(encoding.data(), encoding.size()));
  TRIBUTARY_RETURN_IF_ERROR(output->Pad());
  for (int part = 0; part < 2; ++part) {
    TRIBUTARY_RETURN_IF_ERROR(
        AppendRecords(data, part, reader, header, output));
    for (size_t i = 0; i < reader.size(); ++i) {
      if (reader.HasOneKey(i)) continue;
      TRIBUTARY_RETURN_IF_ERROR(AppendKeys(data, part, i, output));
    }
  }
  return output->Flush();
}

// True if `path` names the open file.
bool IsAt(const std::string& path, int file) {
  struct stat named, opened;
  return stat(path.c_str(), &named) == 0 && fstat(file, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

}  // namespace

absl::Status WriteRowFile(const DataSet& data, const FeatureReader& reader,
                          const std::string& path) {
  // Unfinished files of one name do not accumulate. The lock ends with its
  // holder.
  const std::string unfinished = path + ".part";
  const int file = open(unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return FileError(errno, "cannot open", unfinished);
  // Also unlocks the file.
  const absl::Cleanup closer = [file] { close(file); };
  const int error = flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  // Without IsAt, a file whose writer has renamed it meanwhile would be written
  // again.
  if (error == EWOULDBLOCK || (error == 0 && !IsAt(unfinished, file))) {
    return absl::UnavailableError(
        absl::StrCat(path, ": another process writes it"));
  }
  absl::Status status;
  if (error != 0) {
    // A file system without locks. FileError has the code Unavailable for some
    // of the errors.
    status = absl::FailedPreconditionError(
        FileError(error, "cannot lock", unfinished).message());
  } else if (!PathExists(path)) {
    Output output(file, unfinished);
    if (ftruncate(file, 0) != 0) {
      status = FileError(errno, "cannot write", unfinished);
    }
    if (status.ok()) status = WriteAll(data, reader, path, &output);
    if (status.ok() && fsync(file) != 0) {
      status = FileError(errno, "cannot write", unfinished);
    }
    if (status.ok() && rename(unfinished.c_str(), path.c_str()) == 0) {
      return absl::OkStatus();
    }
    if (status.ok()) status = FileError(errno, "cannot rename", unfinished);
  }
  unlink(unfinished.c_str());
  return status;
}

}  // namespace tributary
