// Tensor files in the safetensors format
// (https://huggingface.co/docs/safetensors): eight bytes with the header's
// length, a JSON header, and the tensors' bytes, little-endian, without gaps.
#ifndef TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_H_
#define TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_H_

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

// A float32 tensor to be written; the elements are borrowed.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
};

// Everything of a file that stands before the data: its length, the header, and
// spaces up to a multiple of eight bytes. The data are the tensors' float32
// elements in the order of `tensors` (whose data are not looked at). The
// metadata get {"format": "pt"} besides `metadata`, so that every reader takes
// the file. InvalidArgument for names that are used twice, empty,
// "__metadata__" or not printable ASCII, and for more than a header may hold.
absl::StatusOr<std::string> MakeSafetensorsHeader(
    absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata);

// Writes the tensors, in the order of their names, and replaces `path` only
// when all is on the disk (see WriteFileAtomically). No copy of the tensors is
// made. Names and metadata: see MakeSafetensorsHeader.
absl::Status WriteSafetensors(
    const std::string& path, absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata,
    FileSystem* files = FileSystem::Posix());

// What a header says of one tensor.
struct TensorEntry {
  std::string name;
  // As in the file: "F32", "BF16", "I64", ...
  std::string dtype;
  std::vector<int64_t> shape;
  // Bytes from the beginning of the data, half open.
  int64_t begin = 0;
  int64_t end = 0;
};

// A file open for reading. Nothing of what it holds is trusted: Open checks the
// header by the rules of the format's own implementation, and refuses what
// that one ignores (repeated and unknown keys). Safe from any thread.
class SafetensorsFile {
 public:
  // DataLoss, with file, offset and reason, for a file that breaks a rule.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;

  // In the order of their data.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // Where the data begin, in bytes from the start of the file.
  int64_t data_offset() const { return data_offset_; }

  // NotFound if there is no such tensor. The pointer is into tensors().
  absl::StatusOr<const TensorEntry*> Find(absl::string_view name) const;

  // Reads a tensor of dtype F32 whose number of elements is that of `values`;
  // InvalidArgument for any other. Blocks on the disk.
  absl::Status ReadFloats(const TensorEntry& tensor,
                          absl::Span<float> values) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int file_ = -1;
  int64_t data_offset_ = 0;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TENSOR_IO_SAFETENSORS_H_
