#include "common/tensor_io/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/base/config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/read_at.h"
#include "common/tensor_io/safetensors_header.h"
#include "common/text/counted.h"

// Tensors are written to the file without conversion.
#ifndef ABSL_IS_LITTLE_ENDIAN
#error "This program needs a little-endian processor."
#endif

namespace tributary {
namespace {

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kLengthBytes = 8;
// The limit that the format defines.
constexpr uint64_t kMaxHeaderBytes = 100000000;
constexpr int64_t kVerifiedBytes = int64_t{1} << 20;

int64_t BytesOf(const NamedTensor& tensor) {
  int64_t bytes = BytesPerElement(tensor.dtype);
  for (const int64_t dimension : tensor.shape) bytes *= dimension;
  return bytes;
}

absl::Status CheckName(const std::string& name) {
  if (!name.empty() && name != kMetadataKey &&
      std::all_of(name.begin(), name.end(), absl::ascii_isprint)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a tensor cannot be called \"",
                                                 absl::CHexEscape(name), "\""));
}

absl::Status ReadAt(int file, const std::string& path, int64_t offset, char* to,
                    size_t count) {
  const auto bytes = static_cast<int64_t>(count);
  const int64_t got = tributary::ReadAt(file, offset, bytes, to);
  if (got == bytes) return absl::OkStatus();
  if (got < 0) return FileError(errno, "cannot read", path);
  return absl::DataLossError(
      absl::StrCat(path, ": offset ", offset + got, ": the file ends"));
}

// Adds a tensor's name to the digest of a file's tensors. The bytes follow.
void AddName(absl::string_view name, Sha256* digest) {
  digest->Update(name);
  digest->Update(absl::string_view("\0", 1));
}

}  // namespace

absl::StatusOr<std::string> MakeSafetensorsHeader(
    absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header[kMetadataKey] = metadata;
  header[kMetadataKey]["format"] = "pt";
  int64_t offset = 0;
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::set<absl::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    TRIBUTARY_RETURN_IF_ERROR(CheckName(tensor.name));
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are called \"", tensor.name, "\""));
    }
    if (BytesPerElement(tensor.dtype) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " has the type \"",
                       absl::CHexEscape(tensor.dtype),
                       "\", which the format does not have"));
    }
    const int64_t end = offset + BytesOf(tensor);
    // Appends without searching for a tensor of the same name, which was
    // checked before.
    entries.push_back({tensor.name,
                       {{"dtype", tensor.dtype},
                        {"shape", tensor.shape},
                        {"data_offsets", {offset, end}}}});
    offset = end;
  }
  // Replaces invalid UTF-8 in metadata by replacement characters instead of
  // throwing.
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a header of ", text.size(), " bytes, for ", tensors.size(),
        " tensors, is over the format's limit ", kMaxHeaderBytes));
  }
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

absl::Status WriteSafetensors(
    const std::string& path, absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata, FileSystem* files) {
  std::vector<NamedTensor> sorted(tensors.begin(), tensors.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const NamedTensor& a, const NamedTensor& b) {
              return a.name < b.name;
            });
  std::vector<absl::string_view> pieces(1);  // The first is the header.
  Sha256 digest;
  for (const NamedTensor& tensor : sorted) {
    pieces.emplace_back(static_cast<const char*>(tensor.data), BytesOf(tensor));
    AddName(tensor.name, &digest);
    digest.Update(pieces.back());
  }
  std::map<std::string, std::string> described = metadata;
  described[kTensorsDigestKey] = digest.FinishHex();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string header,
                             MakeSafetensorsHeader(sorted, described));
  pieces[0] = header;
  return WriteFileAtomically(path, pieces, files);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile opened;
  opened.path_ = path;
  opened.file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened.file_ < 0) return FileError(errno, "cannot open", path);
  struct stat facts;
  if (fstat(opened.file_, &facts) != 0) {
    return FileError(errno, "cannot stat", path);
  }
  const auto error = [&](const auto&... what) {
    return absl::DataLossError(absl::StrCat(path, ": ", what...));
  };
  if (!S_ISREG(facts.st_mode)) return error("is not a regular file");
  const uint64_t file_bytes = static_cast<uint64_t>(facts.st_size);
  if (file_bytes < kLengthBytes) {
    return error("offset 0: the file has ", Counted(file_bytes, "byte"),
                 ", too few for the header's length");
  }
  uint64_t length = 0;
  TRIBUTARY_RETURN_IF_ERROR(ReadAt(
      opened.file_, path, 0, reinterpret_cast<char*>(&length), kLengthBytes));
  if (length > kMaxHeaderBytes) {
    return error("offset 0: a header of ", length, " bytes is over the limit ",
                 kMaxHeaderBytes);
  }
  if (length > file_bytes - kLengthBytes) {
    return error("offset 0: a header of ", Counted(length, "byte"),
                 " goes past the end of the file at ", file_bytes);
  }
  std::string text(length, '\0');
  TRIBUTARY_RETURN_IF_ERROR(
      ReadAt(opened.file_, path, kLengthBytes, text.data(), text.size()));
  opened.data_offset_ = static_cast<int64_t>(kLengthBytes + length);
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(
      text, static_cast<int64_t>(file_bytes) - opened.data_offset_);
  if (!header.ok()) return error(header.status().message());
  opened.tensors_ = std::move(header->tensors);
  opened.metadata_ = std::move(header->metadata);
  return opened;
}

SafetensorsFile::~SafetensorsFile() {
  if (file_ >= 0) close(file_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept {
  *this = std::move(other);
}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  path_ = std::move(other.path_);
  std::swap(file_, other.file_);
  data_offset_ = other.data_offset_;
  tensors_ = std::move(other.tensors_);
  metadata_ = std::move(other.metadata_);
  return *this;
}

absl::StatusOr<const TensorEntry*> SafetensorsFile::Find(
    absl::string_view name) const {
  for (const TensorEntry& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return absl::NotFoundError(
      absl::StrCat(path_, ": has no tensor called ", name));
}

absl::Status SafetensorsFile::Verify() const {
  const auto expected = metadata_.find(kTensorsDigestKey);
  if (expected == metadata_.end()) return absl::OkStatus();
  Sha256 digest;
  std::vector<char> bytes(kVerifiedBytes);
  for (const TensorEntry& tensor : tensors_) {
    AddName(tensor.name, &digest);
    for (int64_t begin = tensor.begin; begin < tensor.end;
         begin += kVerifiedBytes) {
      const size_t count =
          static_cast<size_t>(std::min(kVerifiedBytes, tensor.end - begin));
      TRIBUTARY_RETURN_IF_ERROR(
          ReadAt(file_, path_, data_offset_ + begin, bytes.data(), count));
      digest.Update({bytes.data(), count});
    }
  }
  if (digest.FinishHex() == expected->second) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      path_, ": the tensors do not match their digest; the file is damaged"));
}

absl::Status SafetensorsFile::ReadFloats(const TensorEntry& tensor,
                                         absl::Span<float> values) const {
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
  if (tensor.dtype != "F32" || tensor.end - tensor.begin != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": ", tensor.name, ": ", tensor.dtype, " of ",
        tensor.end - tensor.begin, " bytes, expected F32 of ", bytes));
  }
  return ReadBytes(tensor, {reinterpret_cast<char*>(values.data()),
                            static_cast<size_t>(bytes)});
}

absl::Status SafetensorsFile::ReadBytes(const TensorEntry& tensor,
                                        absl::Span<char> bytes) const {
  return ReadAt(file_, path_, data_offset_ + tensor.begin, bytes.data(),
                bytes.size());
}

}  // namespace tributary
