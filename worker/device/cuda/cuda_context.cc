#include "worker/device/cuda/cuda_context.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/cuda_memory.h"
#include "worker/device/cuda/kernels/elementwise.h"

namespace tributary::cuda {

absl::StatusOr<std::unique_ptr<CudaContext>> CudaContext::Create(int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  auto context = absl::WrapUnique(new CudaContext(std::move(stream)));
  TRIBUTARY_ASSIGN_OR_RETURN(
      Device::Memory base,
      AllocateMemory(context->Current(), sizeof(RandomBase)));
  context->random_base_ = static_cast<RandomBase*>(base.release());
  return context;
}

CudaContext::CudaContext(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), scratch_(stream_.get(), &growths_) {}

CudaContext::~CudaContext() {
  stream_->Activate();
  if (random_base_ != nullptr) FreeMemory(random_base_);
}

void CudaContext::SetRandomBase(const RandomBase& base) {
  cuda::SetRandomBase(Current(), base, random_base_);
}

}  // namespace tributary::cuda
