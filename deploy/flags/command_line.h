// The flags of one subcommand: declared once, read from the command line or
// from TRIBUTARY_* variables, described in --help, and named with their origin.
#ifndef TRIBUTARY_DEPLOY_FLAGS_COMMAND_LINE_H_
#define TRIBUTARY_DEPLOY_FLAGS_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/environment.h"

namespace tributary {

// Flags are declared with a pointer to their value, which holds the default and
// must outlive this object. `--a-b` may be written `--a_b`, and its value may
// be given as TRIBUTARY_A_B; the flag wins. Not thread-safe.
class CommandLine {
 public:
  struct Example {
    std::string command;  // Without "tributary".
    std::string meaning;
  };

  // `name` is the subcommand, `operand` what may follow it without a flag name
  // ("[JOB.textproto]"; empty: nothing).
  CommandLine(std::string name, std::string operand, std::string about,
              std::vector<Example> examples);

  // `value_name` stands for the value in --help; `help` says what it is, and
  // its default.
  void AddText(const std::string& name, const std::string& value_name,
               const std::string& help, std::string* value);
  // May be given several times; in the environment, values are set apart by
  // semicolons.
  void AddTexts(const std::string& name, const std::string& value_name,
                const std::string& help, std::vector<std::string>* values);
  // One of a few words.
  void AddChoice(const std::string& name, std::vector<std::string> choices,
                 const std::string& help, std::string* value);
  void AddInteger(const std::string& name, const std::string& help, int64_t min,
                  int64_t max, int64_t* value);
  void AddNumber(const std::string& name, const std::string& help, double min,
                 double max, double* value);
  void AddSwitch(const std::string& name, const std::string& help, bool* value);
  // For what one process of ours says to another: not in --help.
  void AddHiddenInteger(const std::string& name, int64_t min, int64_t max,
                        int64_t* value);
  // Where the operand goes; once for each, if there are more, in their order.
  // Required operands are not empty after Parse.
  void SetOperand(bool required, std::string* value);

  // `arguments` are those behind the subcommand. False: --help was asked for,
  // and nothing was read. InvalidArgument says what is wrong, and which flag
  // was probably meant.
  absl::StatusOr<bool> Parse(const std::vector<std::string>& arguments,
                             const Environment& environment);

  // Parse, answered as every command does: help goes to stdout, an error to
  // stderr. The exit code with which the command is over; none: go on.
  absl::optional<int> ParseOrAnswer(const std::vector<std::string>& arguments,
                                    const Environment& environment);

  // After Parse: "--workers", "TRIBUTARY_WORKERS", or empty if the flag was not
  // given.
  std::string OriginOf(const std::string& name) const;

  // Examples first; no line is longer than 80 columns.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // Empty: a switch.
    std::string help;
    bool hidden = false;
    bool repeated = false;
    // Reads one value; the error says what was expected.
    std::function<absl::Status(const std::string&)> read;
    std::string origin;
  };
  struct Tokens;

  Flag& Add(const std::string& name, const std::string& value_name,
            const std::string& help);
  absl::Status Tokenize(const std::vector<std::string>& arguments,
                        Tokens* tokens) const;
  absl::Status ReadFlag(const std::vector<std::string>& values,
                        const Environment& environment, Flag* flag);
  absl::Status Unexpected(const std::string& argument) const;
  absl::Status WithHint(const std::string& message) const;

  const std::string name_;
  const std::string operand_;
  const std::string about_;
  const std::vector<Example> examples_;
  std::vector<Flag> flags_;
  struct Operand {
    bool required = false;
    std::string* value = nullptr;
  };
  std::vector<Operand> operands_;
};

// Breaks `text` into lines of at most `width` columns at spaces, each behind
// `indent` spaces but the first, which starts at column `first_column`.
std::string WrapText(const std::string& text, int indent, int width,
                     int first_column);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_COMMAND_LINE_H_
