#include "common/os/crash_handler.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "common/base/crash_context.h"

namespace tributary {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kReportedBySanitizer = true;
#else
constexpr bool kReportedBySanitizer = false;
#endif

constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A line in a buffer of its own: memory may be exhausted, and a signal handler
// must not allocate any. Text that does not fit is cut off.
class CrashLine {
 public:
  CrashLine& Add(const char* text) {
    for (; *text != '\0' && size_ < kMostBytes; ++text) {
      // The text of an exception may contain line ends.
      bytes_[size_++] = *text == '\n' ? ' ' : *text;
    }
    return *this;
  }
  CrashLine& Add(uint64_t number) {
    char digits[24];
    char* begin = digits + sizeof(digits);
    *--begin = '\0';
    do {
      *--begin = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return Add(begin);
  }
  CrashLine& AddMegabytes(uint64_t bytes) {
    return Add(bytes >> 20).Add(" MiB");
  }
  // A single write keeps the lines of concurrent processes whole.
  void Write() {
    bytes_[size_++] = '\n';
    // There is nobody to tell about a failure.
    if (write(STDERR_FILENO, bytes_, size_) < 0) return;
  }

 private:
  static constexpr size_t kMostBytes = 1000;
  char bytes_[kMostBytes + 1];
  size_t size_ = 0;
};

// True once a line was written: abort() follows the line about an exception.
std::atomic<bool> crash_reported{false};

int exit_code_if_exhausted = 1;

const char* NameOfCrash(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "segmentation fault";
    case SIGBUS:
      return "bus error";
    case SIGFPE:
      return "arithmetic error, such as an integer division by zero";
    case SIGILL:
      return "illegal instruction";
    default:
      return "abort() was called";
  }
}

void AddCrashContext(CrashLine* line) {
  const CrashContext* const current = FindCrashContext();
  if (current == nullptr) return;
  const CrashContext& context = *current;
  const char* const layer = context.layer;
  if (layer != nullptr) {
    line->Add(" in layer '").Add(layer).Add("', ");
    line->Add(context.backward ? "backward" : "forward");
  }
  const int64_t step = context.step;
  if (step >= 0) {
    // Users count steps from 1, as in "step 1/100".
    line->Add(layer == nullptr ? " in" : ", of").Add(" step ");
    line->Add(static_cast<uint64_t>(step) + 1).Add(", micro-batch ");
    line->Add(static_cast<uint64_t>(context.micro_batch));
  }
}

void OnCrash(int signal) {
  const CrashContext* const context = FindCrashContext();
  const bool explained =
      signal == SIGABRT && (context == nullptr || context->layer == nullptr);
  if (!explained && !crash_reported.exchange(true)) {
    CrashLine line;
    line.Add("error: ").Add(NameOfCrash(signal));
    AddCrashContext(&line);
    line.Write();
  }
  // SA_RESETHAND has restored the default action, which ends the process when
  // this function returns.
  raise(signal);
}

// Returns the address space that this process uses, in bytes; 0 if it is not
// known.
uint64_t AddressSpaceInUse() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = "";
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  uint64_t pages = 0;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) {
    pages = 10 * pages + static_cast<uint64_t>(text[i] - '0');
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void EndExhausted(const char* what) {
  if (!crash_reported.exchange(true)) {
    CrashLine line;
    line.Add("error: ").Add(what);
    AddCrashContext(&line);
    line.Add(": this process uses ").AddMegabytes(AddressSpaceInUse());
    line.Add(" of address space");
    rlimit limit = {};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      line.Add(", its limit is ").AddMegabytes(limit.rlim_cur);
      line.Add("; raise the limit (ulimit -v)");
    } else {
      line.Add(
          "; free memory on this machine, or raise the limits of its control "
          "group on memory and processes");
    }
    line.Write();
  }
  _exit(exit_code_if_exhausted);
}

void ReportException(const char* what) {
  if (crash_reported.exchange(true)) return;
  CrashLine line;
  line.Add("error: exception");
  AddCrashContext(&line);
  line.Add(": ").Add(what).Write();
}

[[noreturn]] void OnTerminate() {
  const std::exception_ptr exception = std::current_exception();
  try {
    if (exception != nullptr) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    EndExhausted("memory has run out");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again ||
        error.code() == std::errc::not_enough_memory) {
      EndExhausted("cannot start a thread");
    }
    ReportException(error.what());
  } catch (const std::exception& error) {
    ReportException(error.what());
  } catch (...) {
    ReportException("it is not a std::exception");
  }
  std::abort();
}

}  // namespace

void ReportCrashes(int exhausted_exit_code) {
  if (kReportedBySanitizer) return;
  exit_code_if_exhausted = exhausted_exit_code;
  // The stack of the main thread may have overflowed. Static, because no memory
  // of the heap may be needed later.
  alignas(16) static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = &OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  for (const int signal : kCrashSignals) {
    // A user's program may have handlers of its own.
    struct sigaction before = {};
    if (sigaction(signal, nullptr, &before) == 0 &&
        before.sa_handler == SIG_DFL) {
      sigaction(signal, &action, nullptr);
    }
  }
  std::set_terminate(&OnTerminate);
}

}  // namespace tributary
