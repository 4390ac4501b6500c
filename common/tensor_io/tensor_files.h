// The tensors of a model that is stored in one or several safetensors files.
#ifndef TRIBUTARY_COMMON_TENSOR_IO_TENSOR_FILES_H_
#define TRIBUTARY_COMMON_TENSOR_IO_TENSOR_FILES_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor_io/safetensors_file.h"

namespace tributary {

// Reads a model by the names of its tensors. Thread-safe.
class TensorFiles {
 public:
  // Opens the model at `path`, which is one of: a safetensors file; a folder in
  // the format of Hugging Face, with model.safetensors, or with
  // model.safetensors.index.json and the files that it lists; or the output
  // directory of a run that is done. Returns NotFound, with a list of these
  // kinds of paths, if `path` is none of them. Returns DataLoss, naming the
  // file, if a file is damaged, if two files contain the same tensor, or if the
  // index names a file in a different folder or a tensor that its file does not
  // contain. Returns the system's error if a file cannot be read.
  static absl::StatusOr<TensorFiles> Open(const std::string& path);

  // The descriptions of the tensors, by name. `begin` and `end` are relative to
  // the start of the data in the file that contains the tensor.
  const std::map<std::string, TensorEntry>& tensors() const { return tensors_; }

  // Returns the first error of SafetensorsFile::Verify.
  absl::Status Verify() const;

  // Reads the elements of the tensor `name`, which must exist, and converts
  // them to float32. Float64 values are rounded to nearest. Returns
  // InvalidArgument unless the tensor is of type F32, F16, BF16 or F64 and has
  // as many elements as `values`, and the errors of SafetensorsFile::ReadBytes.
  absl::Status ReadFloats(const std::string& name,
                          absl::Span<float> values) const;

 private:
  TensorFiles() = default;
  absl::Status AddFile(const std::string& path);
  absl::Status AddParts(const std::string& folder, const std::string& index);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorEntry> tensors_;
  std::map<std::string, size_t> file_of_;  // Index into files_, by tensor.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TENSOR_IO_TENSOR_FILES_H_
