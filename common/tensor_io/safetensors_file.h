// Tensor files in the safetensors format
// (https://huggingface.co/docs/safetensors): the header's length in eight
// bytes, a JSON header, and the tensors' bytes, little-endian and without gaps.
#ifndef TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_FILE_H_
#define TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/os/file_system.h"

namespace tributary {

// A tensor to be written. `data` points to its elements, which this struct does
// not own: floats, unless `dtype` is another of the format's types.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  std::string dtype = "F32";
};

// Returns the size in bytes of one element of a type of the format, such as
// "F32" or "I64"; 0 for other names.
int64_t BytesPerElement(absl::string_view dtype);

// Returns the part of a file that precedes the data: the header's length, the
// header, and spaces up to a multiple of eight bytes. The data, which this
// function does not read, are the elements of the tensors in the order of
// `tensors`. Adds {"format": "pt"}, which some readers require, to the
// metadata in the header. Returns InvalidArgument if a name is repeated, empty,
// "__metadata__" or not printable ASCII, if the format has no such type, or if
// the header exceeds the format's limit.
absl::StatusOr<std::string> MakeSafetensorsHeader(
    absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata);

// Key of the metadata with the digest of a file's tensors, which
// WriteSafetensors adds: the SHA-256, in hexadecimal, of each tensor's name, a
// zero byte and the tensor's bytes, in the order of the file.
inline constexpr char kTensorsDigestKey[] = "tensors_sha256";

// Writes the tensors in the order of their names, and their digest. Replaces
// `path` atomically (see WriteFileAtomically). Does not copy the tensors. See
// MakeSafetensorsHeader for the rules for names and metadata. Returns the
// errors of MakeSafetensorsHeader and WriteFileAtomically.
absl::Status WriteSafetensors(
    const std::string& path, absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata,
    FileSystem* files = FileSystem::Posix());

// The description of one tensor in a header.
struct TensorEntry {
  std::string name;
  // The name of the type, as in the file: "F32", "BF16", "I64", ...
  std::string dtype;
  std::vector<int64_t> shape;
  // The range of the tensor's bytes, relative to the start of the data; `end`
  // is exclusive.
  int64_t begin = 0;
  int64_t end = 0;
};

// A safetensors file that is open for reading. Open validates the header by the
// rules of the format's reference implementation, and also rejects repeated and
// unknown keys, which the reference implementation ignores. Thread-safe.
class SafetensorsFile {
 public:
  // Opens the file and reads its header. Returns DataLoss, naming the file and
  // the reason, if the header is invalid, and the system's error if the file
  // cannot be opened or read.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;

  // The tensors, in the order of their data in the file.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // Reads all tensors and compares them with the digest in the metadata.
  // Returns DataLoss, naming the file, if they differ, and OK if the metadata
  // contain no digest. Fails and blocks as ReadFloats does.
  absl::Status Verify() const;

  // Offset of the data in bytes from the start of the file.
  int64_t data_offset() const { return data_offset_; }

  // Returns a pointer into tensors(), or NotFound if there is no such tensor.
  absl::StatusOr<const TensorEntry*> Find(absl::string_view name) const;

  // Reads the elements of `tensor` to `values`. Returns InvalidArgument unless
  // the tensor has dtype F32 and as many elements as `values`, DataLoss if the
  // file has become shorter, and the system's error if it cannot be read.
  // Blocks while it reads from the disk.
  absl::Status ReadFloats(const TensorEntry& tensor,
                          absl::Span<float> values) const;
  // Reads the bytes of `tensor`, whatever its type. `bytes` must have
  // tensor.end - tensor.begin elements. Fails and blocks as ReadFloats does.
  absl::Status ReadBytes(const TensorEntry& tensor,
                         absl::Span<char> bytes) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int file_ = -1;
  int64_t data_offset_ = 0;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_FILE_H_
