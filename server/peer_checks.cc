#include "server/peer_checks.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/transport/channel.h"

namespace tributary {

absl::Status CheckProtocol(int32_t version) {
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this process speaks protocol version ", version, ", the coordinator ",
      kProtocolVersion, ": use the same release everywhere"));
}

absl::Status CheckModel(const ParameterTable& table, const ArenaLayout& job) {
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(table);
  if (!layout.ok()) return layout.status();
  if (layout->signature() == job.signature()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this worker's model (", layout->parameters().size(),
                   " parameters, signature ", layout->signature().substr(0, 12),
                   ") is not the job's (", job.parameters().size(),
                   " parameters, signature ", job.signature().substr(0, 12),
                   "): use the same release everywhere"));
}

absl::Status CheckData(const DataFacts& facts, const DataFacts& first) {
  if (facts.SerializeAsString() == first.SerializeAsString()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker's data (", facts.train_samples(),
      " training samples, fingerprint ", facts.fingerprint(),
      ") differ from the first worker's (", first.train_samples(), ", ",
      first.fingerprint(), "): copy the same files to every machine"));
}

}  // namespace tributary
