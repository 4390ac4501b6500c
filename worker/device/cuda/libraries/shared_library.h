// Libraries of the CUDA toolkit that are loaded when they are first needed.
// Linked in the ordinary way, cuBLASLt alone would cost every process 0.2 s at
// its start and 200 MB of memory, servers and CPU workers too, and programs
// would not start on machines without it.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary::cuda {

// A loaded library. It stays loaded until the process ends: what it leaves
// behind (threads, callbacks of the driver) must not lose its code.
class SharedLibrary {
 public:
  // By the name that programs are linked with, such as "libcublasLt.so.13", in
  // the program's run path and where the system looks. FailedPrecondition, with
  // the loader's reason, if it cannot be loaded.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  // *function = the library's function `name`, whose type the caller vouches
  // for. FailedPrecondition if it has none.
  template <typename Function>
  absl::Status Bind(const char* name, Function* function) const {
    void* address = nullptr;
    const absl::Status status = Find(name, &address);
    *function = reinterpret_cast<Function>(address);
    return status;
  }

 private:
  SharedLibrary(const std::string& name, void* handle);

  absl::Status Find(const char* name, void** address) const;

  std::string name_;
  void* handle_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_
