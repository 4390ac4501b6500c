#include "common/tensor_io/tensor_files.h"

#include <cstdint>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/numerics/half.h"
#include "common/os/file.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {
namespace {

constexpr char kModel[] = "/model.safetensors";
constexpr char kIndex[] = "/model.safetensors.index.json";
// The index of a model with a hundred thousand tensors has about 10 MB.
constexpr int64_t kMaxIndexBytes = 64 << 20;

// Returns the bytes of one element; 0 for a type that is not supported.
int64_t ElementBytes(absl::string_view dtype) {
  if (dtype == "F64") return 8;
  if (dtype == "F32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

}  // namespace

absl::StatusOr<TensorFiles> TensorFiles::Open(const std::string& path) {
  TensorFiles files;
  if (IsFile(path)) {
    TRIBUTARY_RETURN_IF_ERROR(files.AddFile(path));
    return files;
  }
  for (const char* folder : {"", "/final"}) {
    const std::string model = absl::StrCat(path, folder, kModel);
    if (!IsFile(model)) continue;
    TRIBUTARY_RETURN_IF_ERROR(files.AddFile(model));
    return files;
  }
  const std::string index = absl::StrCat(path, kIndex);
  if (IsFile(index)) {
    TRIBUTARY_RETURN_IF_ERROR(files.AddParts(path, index));
    return files;
  }
  return absl::NotFoundError(absl::StrCat(
      path,
      ": contains no weights, expected a safetensors file, a folder with "
      "model.safetensors or model.safetensors.index.json, or the output "
      "directory of a run that is done"));
}

absl::Status TensorFiles::Verify() const {
  for (const SafetensorsFile& file : files_) {
    TRIBUTARY_RETURN_IF_ERROR(file.Verify());
  }
  return absl::OkStatus();
}

absl::Status TensorFiles::AddFile(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  for (const TensorEntry& entry : file.tensors()) {
    if (!tensors_.emplace(entry.name, entry).second) {
      return absl::DataLossError(absl::StrCat(path, ": tensor ", entry.name,
                                              " is also in another file"));
    }
    file_of_[entry.name] = files_.size();
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status TensorFiles::AddParts(const std::string& folder,
                                   const std::string& index) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(index, kMaxIndexBytes));
  const nlohmann::json json = ParseJson(text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) {
    return absl::DataLossError(
        absl::StrCat(index, ": has no object weight_map"));
  }
  std::set<std::string> parts;
  for (const auto& [tensor, part] : map->items()) {
    const std::string name =
        part.is_string() ? part.get<std::string>() : std::string();
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      return absl::DataLossError(
          absl::StrCat(index, ": the file of tensor ", tensor,
                       " must be the name of a file in the same folder"));
    }
    parts.insert(name);
  }
  for (const std::string& part : parts) {
    TRIBUTARY_RETURN_IF_ERROR(AddFile(absl::StrCat(folder, "/", part)));
  }
  for (const auto& [tensor, part] : map->items()) {
    if (tensors_.count(tensor) > 0) continue;
    return absl::DataLossError(absl::StrCat(
        index, ": tensor ", tensor, " is not in ", part.get<std::string>()));
  }
  return absl::OkStatus();
}

absl::Status TensorFiles::ReadFloats(const std::string& name,
                                     absl::Span<float> values) const {
  const TensorEntry& tensor = tensors_.at(name);
  const SafetensorsFile& file = files_[file_of_.at(name)];
  if (tensor.dtype == "F32") return file.ReadFloats(tensor, values);
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t element = ElementBytes(tensor.dtype);
  if (element == 0 || tensor.end - tensor.begin != count * element) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " has type ", tensor.dtype, " and ",
                     tensor.end - tensor.begin, " bytes, expected ", count,
                     " elements of type F32, F16, BF16 or F64"));
  }
  std::string bytes(static_cast<size_t>(count * element), '\0');
  TRIBUTARY_RETURN_IF_ERROR(file.ReadBytes(tensor, absl::MakeSpan(bytes)));
  if (element == 2) {
    DecodeHalf(
        tensor.dtype == "F16" ? ExchangeSpec::FLOAT16 : ExchangeSpec::BFLOAT16,
        bytes.data(), values.data(), count);
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, bytes.data() + i * element, sizeof(value));
    values[i] = static_cast<float>(value);
  }
  return absl::OkStatus();
}

}  // namespace tributary
