#include "worker/exchange/mesh/hardware_queues.h"

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// The most that CUDA permits.
constexpr int kMostQueues = 32;

}  // namespace

absl::Status CheckHardwareQueues(int peers, int other_streams, int queues) {
  const int needed = peers + other_streams;
  if (peers < 2 || needed <= queues) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "NCCL needs ", needed, " hardware queues of the GPU, one for each of ",
      peers, " other workers and ", other_streams,
      " for the compute threads, but CUDA_DEVICE_MAX_CONNECTIONS permits ",
      queues, ": ",
      needed <= kMostQueues ? absl::StrCat("set it to ", kMostQueues, ", ")
                            : "",
      "use fewer --threads, or set exchange.all_reduce.backend to GLOO"));
}

}  // namespace tributary
