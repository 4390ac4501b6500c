#include "worker/device/cuda/libraries/shared_library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace tributary::cuda {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot load ", name, " (", dlerror(),
                     "); install it, or add its folder to LD_LIBRARY_PATH"));
  }
  return SharedLibrary(name, handle);
}

SharedLibrary::SharedLibrary(const std::string& name, void* handle)
    : name_(name), handle_(handle) {}

absl::Status SharedLibrary::Bind(std::initializer_list<Symbol> symbols) const {
  for (const Symbol& symbol : symbols) {
    const void* const address = dlsym(handle_, symbol.name);
    if (address == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(name_, " has no function ", symbol.name));
    }
    std::memcpy(symbol.function, &address, sizeof(address));
  }
  return absl::OkStatus();
}

}  // namespace tributary::cuda
