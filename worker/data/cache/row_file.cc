#include "worker/data/cache/row_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/files/data_file.h"

namespace tributary {
namespace {

absl::Status Damaged(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is not a whole file of decoded rows; remove it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowFile>> RowFile::Open(
    const std::string& path, const FeatureReader& reader) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return DataFileError(path, "open", errno);
  struct stat found;
  absl::Status status;
  void* memory = MAP_FAILED;
  if (fstat(file, &found) != 0) {
    status = DataFileError(path, "examine", errno);
  } else if (found.st_size < static_cast<off_t>(sizeof(DecodedRowHeader))) {
    status = Damaged(path);
  } else {
    memory = mmap(nullptr, static_cast<size_t>(found.st_size), PROT_READ,
                  MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) status = DataFileError(path, "map", errno);
  }
  close(file);
  TRIBUTARY_RETURN_IF_ERROR(status);
  std::unique_ptr<RowFile> opened(
      new RowFile(path, memory, static_cast<size_t>(found.st_size)));
  TRIBUTARY_RETURN_IF_ERROR(opened->Parse(reader));
  return opened;
}

RowFile::RowFile(const std::string& path, void* memory, size_t bytes)
    : path_(path), memory_(memory), bytes_(bytes) {}

RowFile::~RowFile() { munmap(memory_, bytes_); }

absl::StatusOr<const char*> RowFile::Take(int64_t bytes, int64_t* at) const {
  const auto size = static_cast<int64_t>(bytes_);
  if (bytes < 0 || bytes > size - *at) return Damaged(path_);
  const char* const begin = static_cast<const char*>(memory_) + *at;
  *at = std::min(size, *at + RoundUpToWord(bytes));
  return begin;
}

absl::Status RowFile::Parse(const FeatureReader& reader) {
  int64_t at = 0;
  TRIBUTARY_ASSIGN_OR_RETURN(const char* const begin,
                             Take(sizeof(header_), &at));
  std::memcpy(&header_, begin, sizeof(header_));
  const auto size = static_cast<int64_t>(bytes_);
  if (header_.magic != kRowFileMagic || header_.features < 0 ||
      header_.features > size || header_.labels < 0 || header_.labels > 1 ||
      header_.values < 0 || header_.values > 1 ||
      header_.key_features != static_cast<int64_t>(reader.size())) {
    return Damaged(path_);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(one_key_, Take(header_.key_features, &at));
  if (std::count(one_key_, one_key_ + header_.key_features, 1) !=
      header_.one_key_features) {
    return Damaged(path_);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(encoding_, Take(header_.encoding_bytes, &at));
  layout_ = DecodedRowLayout(header_);
  for (size_t p = 0; p < parts_.size(); ++p) {
    TRIBUTARY_RETURN_IF_ERROR(ParsePart(header_.rows[p], &at, &parts_[p]));
  }
  if (at != size) return Damaged(path_);
  info_.kind = DataInfo::Kind::kRows;
  info_.sample_shape = {header_.features};
  info_.classes = header_.classes;
  info_.vector_dims = reader.dims();
  info_.vector_names = reader.names();
  return absl::OkStatus();
}

absl::Status RowFile::ParsePart(int64_t rows, int64_t* at, Part* part) const {
  const auto size = static_cast<int64_t>(bytes_);
  if (rows < 0 || rows > size / std::max<int64_t>(8, layout_.record_bytes)) {
    return Damaged(path_);
  }
  part->rows = rows;
  TRIBUTARY_ASSIGN_OR_RETURN(part->records,
                             Take(rows * layout_.record_bytes, at));
  for (int64_t i = header_.one_key_features; i < header_.key_features; ++i) {
    Keys& keys = part->several.emplace_back();
    TRIBUTARY_ASSIGN_OR_RETURN(const char* const ends, Take(8 * rows, at));
    keys.ends = reinterpret_cast<const int64_t*>(ends);
    keys.count = rows > 0 ? keys.ends[rows - 1] : 0;
    if (keys.count < 0 || keys.count > size / 8) return Damaged(path_);
    TRIBUTARY_ASSIGN_OR_RETURN(const char* const all, Take(8 * keys.count, at));
    keys.keys = reinterpret_cast<const uint64_t*>(all);
  }
  return absl::OkStatus();
}

void RowFile::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->features.resize(static_cast<size_t>(samples * header_.features));
  batch->labels.resize(static_cast<size_t>(samples * header_.labels));
  batch->values.resize(static_cast<size_t>(samples * header_.values));
  batch->tokens.clear();
  ResizeKeys(static_cast<size_t>(header_.key_features), samples, batch);
}

absl::Status RowFile::CopySample(const Sample& sample, int64_t place,
                                 Batch* batch) const {
  const Part& part = parts_[sample.held_out ? 1 : 0];
  assert(sample.index >= 0 && sample.index < part.rows);
  const char* const record = part.records + sample.index * layout_.record_bytes;
  const auto to = static_cast<size_t>(place);
  const auto features = static_cast<size_t>(header_.features);
  if (features > 0) {
    std::memcpy(&batch->features[to * features], record,
                features * sizeof(float));
  }
  if (header_.labels > 0) {
    std::memcpy(&batch->labels[to], record + layout_.label_at, sizeof(int32_t));
  }
  if (header_.values > 0) {
    std::memcpy(&batch->values[to], record + layout_.value_at, sizeof(float));
  }
  const auto* one = reinterpret_cast<const uint64_t*>(record + layout_.keys_at);
  auto several = part.several.begin();
  for (size_t i = 0; i < batch->feature_keys.size(); ++i) {
    FeatureKeys& feature = batch->feature_keys[i];
    if (one_key_[i] == 1) {
      feature.keys.push_back(*one++);
    } else {
      const int64_t* const ends = several->ends;
      const int64_t begin = sample.index == 0 ? 0 : ends[sample.index - 1];
      const int64_t end = ends[sample.index];
      if (begin < 0 || end < begin || end > several->count) {
        return Damaged(path_);
      }
      feature.keys.insert(feature.keys.end(), several->keys + begin,
                          several->keys + end);
      ++several;
    }
    feature.ends.push_back(static_cast<int64_t>(feature.keys.size()));
  }
  return absl::OkStatus();
}

}  // namespace tributary
