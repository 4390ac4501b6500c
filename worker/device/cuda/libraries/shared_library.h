// Libraries of the CUDA toolkit, loaded on first use. If cuBLASLt were linked
// normally, it alone would cost every process, including servers and CPU
// workers, 0.2 s at startup and 200 MB of memory, and programs would not start
// on machines without it.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_

#include <initializer_list>
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

  // A function of the library, and the function pointer that Bind sets. The
  // caller must ensure that Pointer is the type of the function's address.
  struct Symbol {
    template <typename Pointer>
    Symbol(const char* name, Pointer* function)
        : name(name), function(function) {
      static_assert(sizeof(Pointer) == sizeof(void*), "");
    }
    const char* name;
    void* function;
  };
  // Finds all of `symbols`. Returns FailedPrecondition if one does not exist.
  absl::Status Bind(std::initializer_list<Symbol> symbols) const;

 private:
  SharedLibrary(const std::string& name, void* handle);

  std::string name_;
  void* handle_;
};

// Returns the result of `bind`, an absl::StatusOr<Functions>, which the first
// call with this type keeps for the lifetime of the process. Thread-safe.
template <typename Bind>
auto BindOnce(const Bind& bind)
    -> absl::StatusOr<const typename decltype(bind())::value_type*> {
  static const auto* const functions = new auto(bind());
  if (!functions->ok()) return functions->status();
  return &**functions;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_SHARED_LIBRARY_H_
