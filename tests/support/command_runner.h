// Runs the tributary program as a user does.
#ifndef TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_
#define TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tributary {

// Path of the tributary program. A test that uses it must list
// //deploy:tributary as data.
inline constexpr char kTributary[] = "deploy/tributary";

// How long the tests wait for a program. A sanitizer makes it several times
// slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr absl::Duration kCommandPatience = absl::Minutes(5);
#else
inline constexpr absl::Duration kCommandPatience = absl::Minutes(1);
#endif

struct CommandResult {
  // The exit code as in a shell: 128 + signal if a signal ended the program.
  int exit_code = -1;
  std::string standard_output;
  std::string standard_error;
};

// A program that runs concurrently with the test. Not thread-safe.
class BackgroundCommand {
 public:
  // Starts the program `arguments[0]`. Its environment consists of PATH, HOME
  // and `environment` ("NAME=value"). Aborts the test program if the program
  // cannot be started.
  BackgroundCommand(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});
  // Kills the program with SIGKILL if it still runs.
  ~BackgroundCommand();
  BackgroundCommand(const BackgroundCommand&) = delete;
  BackgroundCommand& operator=(const BackgroundCommand&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Waits until the program ends, and returns its result. If it has not ended
  // after `timeout`, kills it and fails the test.
  CommandResult Wait(absl::Duration timeout = kCommandPatience);
  // Return what the program has written so far.
  std::string StandardOutput() const;
  std::string StandardError() const;
  // Wait for a line on stdout or stderr that contains `text` and return the
  // line. Return an empty string if there is none after kCommandPatience.
  std::string AwaitStandardOutput(const std::string& text) const;
  std::string AwaitStandardError(const std::string& text) const;

 private:
  std::string folder_;
  pid_t pid_ = -1;
  bool running_ = false;
};

// Runs the program `arguments[0]` to its end, with the environment that
// BackgroundCommand describes, and returns its result.
CommandResult RunCommand(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});

// The same, and expects this exit code.
CommandResult RunExpecting(int exit_code,
                           const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment = {});

// Returns the child processes of `pid`, oldest first.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Returns true if the process runs, and false if it has ended, even if its
// parent has not reaped it yet.
bool IsAlive(pid_t pid);

// Returns the command line of a process, with spaces between the arguments.
std::string CommandLineOf(pid_t pid);

// Waits until the file at `path` has at least `lines` lines. Returns false if
// that takes longer than kCommandPatience.
bool AwaitLines(const std::string& path, int lines);

// Creates a new folder for the running test and returns its path.
std::string MakeTestFolder();

// Returns the contents of a file. Aborts the test program if the file cannot be
// read.
std::string ReadWholeFile(const std::string& path);

void WriteWholeFile(const std::string& path, const std::string& contents);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_COMMAND_RUNNER_H_
