// A library for LD_PRELOAD that replaces the wall clock. The file that
// TRIBUTARY_CLOCK names holds the offset from the true time in seconds. The
// offset may change at any time.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);
using Syscall = long (*)(long, ...);

template <typename Function>
Function Original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

const std::atomic<int64_t>* MapOffset() {
  const char* const path = std::getenv("TRIBUTARY_CLOCK");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const page =
      mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return page == MAP_FAILED ? nullptr
                            : static_cast<const std::atomic<int64_t>*>(page);
}

int64_t Offset() {
  static const std::atomic<int64_t>* const offset = MapOffset();
  return offset == nullptr ? 0 : offset->load();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto original = Original<ClockGettime>("clock_gettime");
  const int result = original(clock, time);
  if (clock == CLOCK_REALTIME && result == 0) time->tv_sec += Offset();
  return result;
}

int gettimeofday(timeval* time, void*) {
  timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* to) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

// The kernel's clock is unchanged, so a wait until a wall-clock time must be
// converted to the kernel's time.
long syscall(long number, ...) {
  static const auto original = Original<Syscall>("syscall");
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  timespec until;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) {
    until = *reinterpret_cast<const timespec*>(a[3]);
    until.tv_sec -= Offset();
    if (until.tv_sec < 0) until.tv_sec = 0;
    a[3] = reinterpret_cast<long>(&until);
  }
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"
