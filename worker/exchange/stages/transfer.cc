#include "worker/exchange/stages/transfer.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace tributary {

std::string DescribeTransfer(const TransferKey& key) {
  return absl::StrCat(StageTransfer::Kind_Name(key.kind), " of step ", key.step,
                      ", micro-batch ", key.micro_batch, ", boundary ",
                      key.boundary);
}

const char* WaitName(StageTransfer::Kind kind) {
  switch (kind) {
    case StageTransfer::ACTIVATION:
      return "wait for activations";
    case StageTransfer::ACTIVATION_GRADIENT:
      return "wait for gradients";
    case StageTransfer::WEIGHT_GRADIENT:
      return "wait for weight gradients";
    case StageTransfer::LOCAL_WEIGHTS:
      return "wait for local weights";
    default:
      return "wait for evaluation";
  }
}

const char* SendName(StageTransfer::Kind kind) {
  switch (kind) {
    case StageTransfer::ACTIVATION:
      return "send activations";
    case StageTransfer::ACTIVATION_GRADIENT:
      return "send gradients";
    case StageTransfer::WEIGHT_GRADIENT:
      return "send weight gradients";
    case StageTransfer::LOCAL_WEIGHTS:
      return "send local weights";
    default:
      return "send evaluation";
  }
}

absl::Status CheckIsNeeded(const TransferKey& key, int64_t epoch,
                           int64_t newest, int64_t ended_step) {
  if (epoch < newest) {
    return absl::AbortedError(
        absl::StrCat("assignment ", epoch, " is over; the newest is ", newest));
  }
  if (LastStepOf(key) <= ended_step) {
    return absl::AbortedError(
        absl::StrCat("step ", LastStepOf(key), " is over"));
  }
  return absl::OkStatus();
}

int64_t TotalBytes(absl::Span<const absl::string_view> parts) {
  int64_t bytes = 0;
  for (const absl::string_view part : parts) {
    bytes += static_cast<int64_t>(part.size());
  }
  return bytes;
}

void Gather(absl::Span<const absl::string_view> parts, char* to) {
  for (const absl::string_view part : parts) {
    if (part.empty()) continue;
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
}

absl::Status Scatter(const ReceivedTransfer& transfer,
                     absl::Span<const absl::Span<char>> parts) {
  int64_t expected = 0;
  for (const absl::Span<char> part : parts) {
    expected += static_cast<int64_t>(part.size());
  }
  if (expected != transfer.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a transfer between stages has ", transfer.bytes,
                     " bytes, expected ", expected));
  }
  const char* from = transfer.data;
  for (const absl::Span<char> part : parts) {
    if (part.empty()) continue;
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  return absl::OkStatus();
}

}  // namespace tributary
