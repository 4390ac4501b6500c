#include "worker/device/cuda/libraries/nccl_library.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/libraries/shared_library.h"

namespace tributary {
namespace {

using cuda::SharedLibrary;

// CUDA's own.
constexpr int kDefaultQueues = 8;
constexpr int kMostQueues = 32;

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // Clears the error, so that no later call reports it.
  return absl::InternalError(
      absl::StrCat("NCCL, ", what, ": ", cudaGetErrorString(error)));
}

// The functions of NCCL used, without their prefix.
struct Functions {
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclGroupEnd) GroupEnd;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclRecv) Recv;
  decltype(&ncclSend) Send;

  absl::Status ToStatus(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("NCCL, ", what, ": ", GetErrorString(result)));
  }
};

absl::StatusOr<Functions> Bind() {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(absl::StrCat("libnccl.so.", NCCL_MAJOR)));
  Functions functions;
  TRIBUTARY_RETURN_IF_ERROR(library.Bind({
      {"ncclCommAbort", &functions.CommAbort},
      {"ncclCommGetAsyncError", &functions.CommGetAsyncError},
      {"ncclCommInitRankConfig", &functions.CommInitRankConfig},
      {"ncclGetErrorString", &functions.GetErrorString},
      {"ncclGetUniqueId", &functions.GetUniqueId},
      {"ncclGroupEnd", &functions.GroupEnd},
      {"ncclGroupStart", &functions.GroupStart},
      {"ncclRecv", &functions.Recv},
      {"ncclSend", &functions.Send},
  }));
  return functions;
}

class Communicator final : public NcclCommunicator {
 public:
  Communicator(const Functions* functions, int ordinal, int peer)
      : functions_(*functions), ordinal_(ordinal), peer_(peer) {}
  ~Communicator() override { Abort(); }

  absl::Status Begin(const ncclUniqueId& id, int rank) {
    absl::MutexLock lock(&mu_);
    TRIBUTARY_RETURN_IF_ERROR(Activate());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return functions_.ToStatus(
        functions_.CommInitRankConfig(&communicator_, /*nranks=*/2, id, rank,
                                      &config),
        "making a communicator");
  }

  absl::StatusOr<bool> Ready() override {
    absl::MutexLock lock(&mu_);
    TRIBUTARY_RETURN_IF_ERROR(Activate());
    ncclResult_t state = ncclSuccess;
    TRIBUTARY_RETURN_IF_ERROR(
        functions_.ToStatus(functions_.CommGetAsyncError(communicator_, &state),
                            "asking for errors"));
    TRIBUTARY_RETURN_IF_ERROR(functions_.ToStatus(state, "of a message"));
    return state == ncclSuccess;
  }

  absl::Status Exchange(const void* send, size_t send_bytes, void* receive,
                        size_t receive_bytes, void* stream) override {
    absl::MutexLock lock(&mu_);
    TRIBUTARY_RETURN_IF_ERROR(Activate());
    const auto queue = static_cast<cudaStream_t>(stream);
    TRIBUTARY_RETURN_IF_ERROR(
        functions_.ToStatus(functions_.GroupStart(), "starting a group"));
    absl::Status status;
    if (send_bytes > 0) {
      status.Update(
          functions_.ToStatus(functions_.Send(send, send_bytes, ncclInt8, peer_,
                                              communicator_, queue),
                              "sending"));
    }
    if (receive_bytes > 0) {
      status.Update(
          functions_.ToStatus(functions_.Recv(receive, receive_bytes, ncclInt8,
                                              peer_, communicator_, queue),
                              "receiving"));
    }
    // A group that has been started must end, even after an error.
    status.Update(
        functions_.ToStatus(functions_.GroupEnd(), "exchanging messages"));
    return status;
  }

  void Abort() override {
    absl::MutexLock lock(&mu_);
    if (!aborted_ && communicator_ != nullptr) {
      cudaSetDevice(ordinal_);
      functions_.CommAbort(communicator_);  // Also frees the communicator.
    }
    aborted_ = true;
  }

 private:
  absl::Status Activate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (aborted_) return absl::AbortedError("the all-reduce was cancelled");
    return ToStatus(cudaSetDevice(ordinal_), "cudaSetDevice");
  }

  const Functions& functions_;
  const int ordinal_;
  const int peer_;
  // Held during calls of NCCL. Only Abort blocks there.
  absl::Mutex mu_;
  ncclComm_t communicator_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
};

class Library final : public NcclLibrary {
 public:
  explicit Library(const Functions& functions) : functions_(functions) {}

  absl::StatusOr<std::string> MakeId() override {
    ncclUniqueId id;
    TRIBUTARY_RETURN_IF_ERROR(
        functions_.ToStatus(functions_.GetUniqueId(&id), "making an id"));
    return std::string(id.internal, sizeof(id.internal));
  }

  absl::StatusOr<std::unique_ptr<NcclCommunicator>> Begin(
      const std::string& bytes, int rank, const std::string& bus_id) override {
    ncclUniqueId id;
    if (bytes.size() != sizeof(id.internal)) {
      return absl::InvalidArgumentError("not an NCCL id");
    }
    std::memcpy(id.internal, bytes.data(), bytes.size());
    int ordinal = 0;
    TRIBUTARY_RETURN_IF_ERROR(ToStatus(
        cudaDeviceGetByPCIBusId(&ordinal, bus_id.c_str()), "finding the GPU"));
    auto communicator = std::make_unique<Communicator>(&functions_, ordinal,
                                                       /*peer=*/1 - rank);
    TRIBUTARY_RETURN_IF_ERROR(communicator->Begin(id, rank));
    return communicator;
  }

  int hardware_queues() const override {
    const char* const queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int count = 0;
    if (queues == nullptr || !absl::SimpleAtoi(queues, &count)) {
      return kDefaultQueues;
    }
    return std::clamp(count, 1, kMostQueues);
  }

 private:
  const Functions functions_;
};

}  // namespace

absl::StatusOr<NcclLibrary*> LoadNccl() {
  static const auto* const library = [] {
    absl::StatusOr<Functions> functions = Bind();
    return new absl::StatusOr<NcclLibrary*>(
        functions.ok() ? absl::StatusOr<NcclLibrary*>(new Library(*functions))
                       : functions.status());
  }();
  return *library;
}

}  // namespace tributary
