// For LD_PRELOAD: what happens between two steps with which `tributary tune`
// enters a study.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

using Flock = int (*)(int, int);
using MakeFolder = int (*)(const char*, mode_t);

constexpr char kFree[] = "the folder of the study is not claimed\n";

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Before a folder is claimed, creates the folder JOINED, as a process with
// --shared does that has joined.
extern "C" int flock(int fd, int operation) noexcept {
  const char* const joined = std::getenv("JOINED");
  if (joined != nullptr) Next<MakeFolder>("mkdir")(joined, 0777);
  return Next<Flock>("flock")(fd, operation);
}

// Before the folder of leases is created, says on stderr if no process claims
// the folder of the study.
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  const std::string leases = path;
  const size_t slash = leases.rfind('/');
  if (slash != std::string::npos && leases.substr(slash) == "/tuners") {
    const int fd = open(leases.substr(0, slash).c_str(), O_RDONLY | O_CLOEXEC);
    if (Next<Flock>("flock")(fd, LOCK_EX | LOCK_NB) == 0 &&
        write(STDERR_FILENO, kFree, sizeof(kFree) - 1) < 0) {
      std::abort();
    }
    close(fd);
  }
  return Next<MakeFolder>("mkdir")(path, mode);
}
