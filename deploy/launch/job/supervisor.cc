#include "deploy/launch/job/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tributary {
namespace {

// A ready line is shorter. A child that writes more is not a Tributary process.
constexpr size_t kMaxReadyBytes = 1024;
// Bounds the warnings that are read from a child between two calls; a pipe
// holds much less.
constexpr size_t kMaxWarningBytes = 1 << 20;
constexpr char kEmptyInput[] = "/dev/null";

// Closes its descriptor unless it was released.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  int get() const { return fd_; }
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// All data that the child needs between fork and exec. It is prepared before
// the fork, because only async-signal-safe calls are allowed afterwards.
struct ChildPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int input = -1;
  int log = -1;
  int ready = -1;
  int warnings = -1;
  int failure = -1;  // Receives errno if exec fails; closed by exec otherwise.
  pid_t parent = -1;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Moves the descriptors above kWarningFd first, then to their final numbers.
bool PlaceDescriptors(ChildPlan* plan) {
  for (int* fd : {&plan->input, &plan->log, &plan->ready, &plan->warnings,
                  &plan->failure}) {
    *fd = fcntl(*fd, F_DUPFD_CLOEXEC, kWarningFd + 1);
    if (*fd < 0) return false;
  }
  return dup2(plan->input, 0) >= 0 && dup2(plan->log, 1) >= 0 &&
         dup2(plan->log, 2) >= 0 && dup2(plan->ready, kReadyFd) >= 0 &&
         dup2(plan->warnings, kWarningFd) >= 0;
}

[[noreturn]] void RunChild(ChildPlan* plan) {
  setpgid(0, 0);
  bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  // The parent may have ended before prctl took effect.
  if (getppid() != plan->parent) _exit(128 + SIGKILL);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ready = ready && PlaceDescriptors(plan);
  if (ready) {
    execve(plan->arguments[0], plan->arguments.data(),
           plan->environment.data());
  }
  const int error = errno;
  // If this write fails too, the parent learns only the exit code.
  if (write(plan->failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// Returns a descriptor from which `text` can be read; a negative number on
// failure. The text is in no file system, so it can be a secret.
int FileInMemory(const std::string& text) {
  UniqueFd file(memfd_create("input", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(text.size());
  if (file.get() < 0 || write(file.get(), text.data(), size) != size ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return -1;
  }
  return file.release();
}

absl::Status StartError(const ProcessSpec& spec, const char* what, int error) {
  return absl::InternalError(absl::StrCat("cannot start ", spec.name, ": ",
                                          what, ": ", strerror(error)));
}

}  // namespace

Supervisor::~Supervisor() {
  SignalAll(SIGKILL);
  for (Child& child : children_) {
    if (child.running) {
      while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    child.ready.Close();
    child.warnings.Close();
  }
}

absl::StatusOr<int> Supervisor::Start(const ProcessSpec& spec) {
  const UniqueFd input(spec.input.empty()
                           ? open(kEmptyInput, O_RDONLY | O_CLOEXEC)
                           : FileInMemory(spec.input));
  if (input.get() < 0)
    return StartError(spec, spec.input.empty() ? kEmptyInput : "memfd", errno);
  const UniqueFd log(open(
      spec.log_path.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (spec.append ? 0 : O_TRUNC),
      0644));
  struct stat facts = {};
  if (log.get() < 0 || fstat(log.get(), &facts) < 0) {
    return StartError(spec, spec.log_path.c_str(), errno);
  }
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) < 0) {
    return StartError(spec, "pipe", errno);
  }
  UniqueFd ready_read(pipe_ends[0]), ready_write(pipe_ends[1]);
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) < 0) {
    return StartError(spec, "pipe", errno);
  }
  UniqueFd warnings_read(pipe_ends[0]), warnings_write(pipe_ends[1]);
  if (pipe2(pipe_ends, O_CLOEXEC) < 0) return StartError(spec, "pipe", errno);
  UniqueFd failure_read(pipe_ends[0]), failure_write(pipe_ends[1]);

  ChildPlan plan;
  plan.arguments = Pointers(spec.arguments);
  plan.environment = Pointers(spec.environment);
  plan.input = input.get();
  plan.log = log.get();
  plan.ready = ready_write.get();
  plan.warnings = warnings_write.get();
  plan.failure = failure_write.get();
  plan.parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return StartError(spec, "fork", errno);
  if (pid == 0) RunChild(&plan);

  // The child makes the same call; the first of the two lets signals reach the
  // group.
  setpgid(pid, pid);
  failure_write.reset(-1);
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(failure_read.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error)) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return StartError(spec, spec.arguments[0].c_str(), error);
  }
  Child child;
  child.spec = spec;
  child.pid = pid;
  child.log_begin = facts.st_size;
  child.ready.fd = ready_read.release();
  child.warnings.fd = warnings_read.release();
  children_.push_back(std::move(child));
  return static_cast<int>(children_.size()) - 1;
}

void Supervisor::LinePipe::Read(size_t most_bytes) {
  char bytes[4096];
  while (fd >= 0) {
    const ssize_t count = read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count > 0) text.append(bytes, count);
    if (count <= 0 || text.size() > most_bytes) Close();
  }
}

void Supervisor::LinePipe::Close() {
  if (fd >= 0) close(fd);
  fd = -1;
}

absl::optional<std::string> Supervisor::ReadyText(int process) {
  LinePipe& ready = children_[process].ready;
  ready.Read(kMaxReadyBytes);
  const size_t end = ready.text.find('\n');
  if (end == std::string::npos) return absl::nullopt;
  return ready.text.substr(0, end);
}

std::vector<std::string> Supervisor::TakeWarnings(int process) {
  LinePipe& warnings = children_[process].warnings;
  warnings.Read(kMaxWarningBytes);
  std::vector<std::string> lines = absl::StrSplit(warnings.text, '\n');
  warnings.text = lines.back();
  lines.pop_back();
  return lines;
}

std::vector<ProcessExit> Supervisor::Reap() {
  std::vector<ProcessExit> exits;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (!child.running) continue;
    siginfo_t info = {};
    if (waitid(P_PID, child.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != child.pid) {
      continue;
    }
    // Ends the descendants that the child has left. Precedes waitpid, which
    // frees the number of the group.
    kill(-child.pid, SIGKILL);
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.running = false;
    exits.push_back({static_cast<int>(i), status, /*reason=*/""});
  }
  return exits;
}

void Supervisor::Signal(int process, int signal) {
  const Child& child = children_[process];
  if (child.running) kill(-child.pid, signal);
}

}  // namespace tributary
