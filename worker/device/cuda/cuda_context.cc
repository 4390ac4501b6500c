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
      context->random_base_,
      AllocateMemory(context->Current(), sizeof(RandomBase)));
  return context;
}

CudaContext::CudaContext(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), scratch_(stream_.get(), &growths_) {}

CudaContext::~CudaContext() { stream_->Activate(); }

void CudaContext::SetRandomBase(const RandomBase& base) {
  cuda::SetRandomBase(Current(), base,
                      static_cast<RandomBase*>(random_base_.get()));
}

}  // namespace tributary::cuda
