// Replacement for the CUDA device in builds without CUDA.
#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/libraries/cuda_driver.h"

namespace tributary {
namespace {

absl::Status NoCuda() {
  return absl::FailedPreconditionError(
      "this build has no CUDA; build where /usr/local/cuda exists");
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() { return NoCuda(); }

absl::StatusOr<std::string> CudaBusId(int /*ordinal*/) { return NoCuda(); }

absl::StatusOr<PinMemory> PinForCuda(int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(const CudaDriver* const driver, LoadCudaDriver());
  return PinForCuda(*driver, ordinal);
}

void LeaveCuda(int /*ordinal*/) {}

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    int /*ordinal*/, Precision /*precision*/) {
  return NoCuda();
}

}  // namespace tributary
