#include "server/progress/untrained_tensors.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::Status UntrainedTensors::CheckWhole() const {
  if (tensors_.empty()) return absl::OkStatus();
  const UntrainedTensor& last = tensors_.back();
  if (static_cast<int64_t>(last.data.size()) == expected_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("untrained tensor ", last.name, " has ", last.data.size(),
                   " bytes, expected ", expected_));
}

absl::Status UntrainedTensors::Begin(const UntrainedTensorPart& part) {
  TRIBUTARY_RETURN_IF_ERROR(CheckWhole());
  const auto refuse = [&part](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "untrained tensor ", absl::CHexEscape(part.name()), ": ", what...));
  };
  if (part.name().size() > static_cast<size_t>(kDefaultLimits.name_bytes) ||
      part.shape_size() > kDefaultLimits.dimensions ||
      static_cast<int>(tensors_.size()) >= kDefaultLimits.parameters) {
    return refuse("expected at most ", kDefaultLimits.name_bytes,
                  " bytes in the name, ", kDefaultLimits.dimensions,
                  " dimensions and ", kDefaultLimits.parameters, " tensors");
  }
  if (!names_.insert(part.name()).second) return refuse("sent twice");
  int64_t bytes = BytesPerElement(part.dtype());
  if (bytes == 0) {
    return refuse("the type ", absl::CHexEscape(part.dtype()), " is unknown");
  }
  for (const int64_t size : part.shape()) {
    if (size < 0) return refuse("a dimension is ", size);
    // A tensor without elements has no bytes, whatever its other sizes.
    bytes =
        bytes > limit_ / std::max<int64_t>(size, 1) ? limit_ + 1 : bytes * size;
  }
  if (bytes > limit_ - bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("untrained tensors have more than ", limit_, " bytes"));
  }
  bytes_ += bytes;
  expected_ = bytes;
  tensors_.push_back({part.name(),
                      part.dtype(),
                      {part.shape().begin(), part.shape().end()},
                      ""});
  return absl::OkStatus();
}

absl::Status UntrainedTensors::Add(const UntrainedTensorPart& part) {
  if (complete_) {
    return absl::InvalidArgumentError(
        "an untrained tensor after the last part");
  }
  if (!part.name().empty()) {
    if (tensors_.empty() || tensors_.back().name != part.name()) {
      TRIBUTARY_RETURN_IF_ERROR(Begin(part));
    }
    UntrainedTensor& tensor = tensors_.back();
    for (const std::string& bytes : part.data()) {
      if (tensor.data.size() + bytes.size() > static_cast<size_t>(expected_)) {
        return absl::InvalidArgumentError(
            absl::StrCat("untrained tensor ", tensor.name, " has more than ",
                         expected_, " bytes"));
      }
      tensor.data += bytes;
    }
  }
  if (part.last()) {
    TRIBUTARY_RETURN_IF_ERROR(CheckWhole());
    complete_ = true;
  }
  return absl::OkStatus();
}

void UntrainedTensors::Clear() {
  tensors_.clear();
  names_.clear();
  bytes_ = 0;
  complete_ = false;
}

std::vector<NamedTensor> UntrainedTensors::tensors() const {
  std::vector<NamedTensor> named;
  if (!complete_) return named;
  for (const UntrainedTensor& tensor : tensors_) {
    named.push_back(
        {tensor.name, tensor.shape, tensor.data.data(), tensor.dtype});
  }
  return named;
}

}  // namespace tributary
