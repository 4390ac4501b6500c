// Runs the real program, as a person would.
#ifndef TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_
#define TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tributary {

// The program in the test's data: give //deploy:tributary as data.
inline constexpr char kTributary[] = "deploy/tributary";

struct CommandResult {
  // As a shell shows it: 128 + signal if one ended the program.
  int exit_code = -1;
  std::string standard_output;
  std::string standard_error;
};

// A program that runs beside the test. Not thread-safe.
class BackgroundCommand {
 public:
  // `arguments[0]` is the program. It gets PATH, HOME and `environment`
  // ("NAME=value") and nothing else. Ends the test program if it cannot start.
  BackgroundCommand(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});
  // Kills it with SIGKILL if it still runs.
  ~BackgroundCommand();
  BackgroundCommand(const BackgroundCommand&) = delete;
  BackgroundCommand& operator=(const BackgroundCommand&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Waits for its end; after `timeout` it is killed and the test fails.
  CommandResult Wait(absl::Duration timeout = absl::Seconds(60));
  // What it has written so far.
  std::string StandardOutput() const;
  std::string StandardError() const;
  // Waits for a line with this text on stderr, and returns it; empty after a
  // generous time.
  std::string AwaitStandardError(const std::string& text) const;

 private:
  std::string folder_;
  pid_t pid_ = -1;
  bool running_ = false;
};

// Runs it to its end.
CommandResult RunCommand(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});

// The processes that `pid` has started, oldest first.
std::vector<pid_t> ChildrenOf(pid_t pid);

// False for zombies too.
bool IsAlive(pid_t pid);

// The command line of a process, spaces between the arguments.
std::string CommandLineOf(pid_t pid);

// Waits until `path` has at least `lines` lines; false after a generous time.
bool AwaitLines(const std::string& path, int lines);

// A new folder for the running test.
std::string MakeTestFolder();

// Ends the test program if the file cannot be read.
std::string ReadWholeFile(const std::string& path);

void WriteWholeFile(const std::string& path, const std::string& contents);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_
