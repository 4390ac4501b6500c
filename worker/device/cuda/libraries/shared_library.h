// Libraries of the CUDA toolkit, loaded on first use. If cuBLASLt were linked
// normally, it alone would cost every process, including servers and CPU
// workers, 0.2 s at startup and 200 MB of memory, and programs would not start
// on machines without it.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary::cuda {

// A loaded library. It stays loaded until the process ends, because threads
// that the library has started, and callbacks from the driver, run its code.
class SharedLibrary {
 public:
  // Loads the library with the soname `name`, such as "libcublasLt.so.13", from
  // the program's run path or the system's search path. Returns
  // FailedPrecondition, with the loader's reason, on failure.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  // Sets *function to the library's function `name`. The caller must ensure
  // that Function is the type of this function. Returns FailedPrecondition if
  // there is no such function.
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
