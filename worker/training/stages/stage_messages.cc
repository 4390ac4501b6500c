#include "worker/training/stages/stage_messages.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Returns the elements of a part of an arena.
std::vector<absl::string_view> BytesOf(const StageSplit::Part& part,
                                       const float* arena) {
  std::vector<absl::string_view> spans;
  for (const StageSplit::Range& range : part.elements) {
    spans.emplace_back(reinterpret_cast<const char*>(arena + range.begin),
                       static_cast<size_t>(range.size()) * sizeof(float));
  }
  return spans;
}

}  // namespace

StageMessages::StageMessages(const StagePart* part, ComputeThread* compute)
    : part_(*part), compute_(compute) {
  const std::vector<StageSplit::Part>& parts = part_.split->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!part_.Computes(parts[i].to) || part_.Computes(parts[i].from)) continue;
    received_parts_.push_back(static_cast<int>(i));
  }
}

absl::StatusOr<ReceivedTransfer> StageMessages::Receive(
    const Task& task, int stage, int transfer, int boundary,
    StageTransfer::Kind kind, int64_t bytes) const {
  const TransferKey key = {task.version, transfer, boundary, kind};
  TRIBUTARY_ASSIGN_OR_RETURN(
      ReceivedTransfer received,
      part_.transfers->Receive(task.generation, stage, key));
  if (received.bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(DescribeTransfer(key),
                                                   " has ", received.bytes,
                                                   " bytes, expected ", bytes));
  }
  return received;
}

absl::Status StageMessages::Send(const Task& task, int stage, const Item& item,
                                 int boundary, StageTransfer::Kind kind,
                                 const std::vector<absl::string_view>& parts) {
  compute_->Switch(Activity::kExchange, SendName(kind));
  return part_.transfers->Send(task.generation, stage,
                               {task.version, item.transfer, boundary, kind},
                               {item.sample_count, item.loss_sum}, parts);
}

absl::Status StageMessages::ReceivePart(const Task& task, int part,
                                        const Item& item,
                                        float* gradients) const {
  const StageSplit::Part& from = part_.split->parts[part];
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ReceivedTransfer received,
      Receive(task, from.from, item.transfer, part,
              StageTransfer::WEIGHT_GRADIENT, from.bytes()));
  const char* bytes = received.data;
  for (const StageSplit::Range& range : from.elements) {
    const size_t size = static_cast<size_t>(range.size()) * sizeof(float);
    std::memcpy(gradients + range.begin, bytes, size);
    bytes += size;
  }
  return absl::OkStatus();
}

absl::Status StageMessages::SendParts(const Task& task, const Item& item,
                                      const float* gradients) {
  const std::vector<StageSplit::Part>& parts = part_.split->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const StageSplit::Part& part = parts[i];
    if (!part_.Computes(part.from) || part_.Computes(part.to)) continue;
    TRIBUTARY_RETURN_IF_ERROR(Send(task, part.to, item, static_cast<int>(i),
                                   StageTransfer::WEIGHT_GRADIENT,
                                   BytesOf(part, gradients)));
  }
  return absl::OkStatus();
}

absl::Status StageMessages::ReceiveWeights(
    const Task& task, const Item& item,
    const std::function<void(int64_t begin, absl::Span<const float> values)>&
        replace) {
  const std::vector<StageSplit::Part>& parts = part_.split->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const StageSplit::Part& part = parts[i];
    if (!part_.Computes(part.from) || part_.Computes(part.to)) continue;
    compute_->Switch(Activity::kExchange,
                     WaitName(StageTransfer::LOCAL_WEIGHTS));
    TRIBUTARY_ASSIGN_OR_RETURN(
        const ReceivedTransfer received,
        Receive(task, part.to, item.transfer, static_cast<int>(i),
                StageTransfer::LOCAL_WEIGHTS, part.bytes()));
    const auto* values = reinterpret_cast<const float*>(received.data);
    for (const StageSplit::Range& range : part.elements) {
      const auto size = static_cast<size_t>(range.size());
      replace(range.begin, {values, size});
      values += size;
    }
  }
  return absl::OkStatus();
}

absl::Status StageMessages::SendWeights(const Task& task, const Item& item,
                                        const float* weights) {
  for (const int i : received_parts_) {
    const StageSplit::Part& part = part_.split->parts[i];
    TRIBUTARY_RETURN_IF_ERROR(Send(task, part.from, item, i,
                                   StageTransfer::LOCAL_WEIGHTS,
                                   BytesOf(part, weights)));
  }
  return absl::OkStatus();
}

}  // namespace tributary
