#include "tests/support/command_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

[[noreturn]] void Die(const std::string& what) {
  perror(what.c_str());
  abort();
}

void Pause() { poll(nullptr, 0, 5); }

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Waits until the output that `read` returns has a line that contains `text`.
std::string AwaitLineWith(const std::string& text,
                          const std::function<std::string()>& read) {
  const absl::Time deadline = absl::Now() + kCommandPatience;
  while (absl::Now() < deadline) {
    const std::string all = read();
    const size_t found = all.find(text);
    const size_t end =
        found == std::string::npos ? found : all.find('\n', found);
    if (end != std::string::npos) {
      const size_t begin = all.rfind('\n', found) + 1;
      return all.substr(begin, end - begin);
    }
    Pause();
  }
  return "";
}

}  // namespace

BackgroundCommand::BackgroundCommand(
    const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment)
    : folder_(MakeTestFolder()) {
  std::vector<std::string> variables = {
      "PATH=/usr/bin:/bin", absl::StrCat("HOME=", testing::TempDir())};
  // The sanitizers' settings must also reach the program.
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    const char* value = getenv(name);
    if (value != nullptr) variables.push_back(absl::StrCat(name, "=", value));
  }
  variables.insert(variables.end(), environment.begin(), environment.end());
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  const std::string out = folder_ + "/stdout";
  const std::string err = folder_ + "/stderr";
  pid_ = fork();
  if (pid_ < 0) Die("fork");
  if (pid_ == 0) {
    const int mode = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    const bool placed = dup2(open("/dev/null", O_RDONLY), 0) >= 0 &&
                        dup2(open(out.c_str(), mode, 0600), 1) >= 0 &&
                        dup2(open(err.c_str(), mode, 0600), 2) >= 0;
    if (placed) execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  running_ = true;
}

BackgroundCommand::~BackgroundCommand() {
  if (!running_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void BackgroundCommand::Signal(int signal) { kill(pid_, signal); }

CommandResult BackgroundCommand::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0) {
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "the program did not end; it wrote:\n"
                    << StandardOutput() << StandardError();
      kill(pid_, SIGKILL);
      ended = waitpid(pid_, &status, 0);
      break;
    }
    Pause();
  }
  if (ended < 0) Die("waitpid");
  running_ = false;
  CommandResult result;
  result.exit_code =
      WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.standard_output = StandardOutput();
  result.standard_error = StandardError();
  return result;
}

std::string BackgroundCommand::StandardOutput() const {
  return Contents(folder_ + "/stdout");
}

std::string BackgroundCommand::StandardError() const {
  return Contents(folder_ + "/stderr");
}

std::string BackgroundCommand::AwaitStandardOutput(
    const std::string& text) const {
  return AwaitLineWith(text, [this] { return StandardOutput(); });
}

std::string BackgroundCommand::AwaitStandardError(
    const std::string& text) const {
  return AwaitLineWith(text, [this] { return StandardError(); });
}

CommandResult RunCommand(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment) {
  return BackgroundCommand(arguments, environment).Wait();
}

CommandResult RunExpecting(int exit_code,
                           const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment) {
  CommandResult result = RunCommand(arguments, environment);
  EXPECT_EQ(result.exit_code, exit_code)
      << absl::StrJoin(arguments, " ") << "\n"
      << result.standard_error;
  return result;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  const std::string text =
      Contents(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int child = 0;
    if (absl::SimpleAtoi(word, &child)) children.push_back(child);
  }
  return children;
}

bool IsAlive(pid_t pid) {
  const std::string stat = Contents(absl::StrCat("/proc/", pid, "/stat"));
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

std::string CommandLineOf(pid_t pid) {
  std::string text = Contents(absl::StrCat("/proc/", pid, "/cmdline"));
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

bool AwaitLines(const std::string& path, int lines) {
  const absl::Time deadline = absl::Now() + kCommandPatience;
  while (absl::Now() < deadline) {
    const std::string text = Contents(path);
    if (std::count(text.begin(), text.end(), '\n') >= lines) return true;
    Pause();
  }
  return false;
}

std::string MakeTestFolder() {
  std::string folder = absl::StrCat(testing::TempDir(), "/test-XXXXXX");
  if (mkdtemp(&folder[0]) == nullptr) Die(folder);
  return folder;
}

std::string ReadWholeFile(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) Die(path);
  return Contents(path);
}

void WriteWholeFile(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary);
  file << contents;
  if (!file.flush()) Die(path);
}

}  // namespace tributary
