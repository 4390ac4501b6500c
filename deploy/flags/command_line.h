// The flags of one subcommand: their declaration, their parsing from the
// command line and from TRIBUTARY_* variables, and the text of --help.
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

// Parses the flags and operands of one subcommand and prints its --help. Each
// flag is declared with a pointer to its value, which holds the default and
// must outlive this object. A flag `--a-b` may also be written `--a_b`, or be
// set by the environment variable TRIBUTARY_A_B; the command line takes
// precedence. Not thread-safe.
class CommandLine {
 public:
  struct Example {
    std::string command;  // The command line after "tributary".
    std::string meaning;
  };

  // `name` is the subcommand. `operand` describes the arguments without a flag
  // name, such as "[JOB.textproto]"; empty if there are none. `about` describes
  // the subcommand in --help.
  CommandLine(std::string name, std::string operand, std::string about,
              std::vector<Example> examples);

  // Declares a flag whose value is any text. `value_name` stands for the value
  // in --help, such as FILE. `help` describes the value and its default.
  void AddText(const std::string& name, const std::string& value_name,
               const std::string& help, std::string* value);
  // Declares a flag that may be repeated. In the flag's environment variable,
  // semicolons separate the values.
  void AddTexts(const std::string& name, const std::string& value_name,
                const std::string& help, std::vector<std::string>* values);
  // Declares a flag whose value is one of `choices`.
  void AddChoice(const std::string& name, std::vector<std::string> choices,
                 const std::string& help, std::string* value);
  // Declare a flag whose value is a number from `min` to `max`.
  void AddInteger(const std::string& name, const std::string& help, int64_t min,
                  int64_t max, int64_t* value);
  void AddNumber(const std::string& name, const std::string& help, double min,
                 double max, double* value);
  // Declares a flag without a value. It sets `*value` to true.
  void AddSwitch(const std::string& name, const std::string& help, bool* value);
  // Declares a flag that --help does not list, because only Tributary's own
  // processes pass it to each other.
  void AddHiddenInteger(const std::string& name, int64_t min, int64_t max,
                        int64_t* value);
  // Declares an operand, which Parse stores in `*value`. Call this once per
  // operand, in the order of the operands. If `required` is true, Parse returns
  // an error if the operand is missing or empty.
  void SetOperand(bool required, std::string* value);
  // Declares any number of operands, which Parse stores in `*values`. Call this
  // instead of SetOperand.
  void SetOperands(std::vector<std::string>* values) { all_ = values; }

  // Parses `arguments`, which follow the subcommand, and sets the values of the
  // flags and operands. Returns true, or false without setting any value if
  // `arguments` include --help. Returns InvalidArgument, with the problem, if
  // an argument or an environment variable is invalid; for an unknown flag, the
  // message suggests the most similar one.
  absl::StatusOr<bool> Parse(const std::vector<std::string>& arguments,
                             const Environment& environment);

  // Calls Parse and prints help to stdout or the error to stderr. Returns the
  // exit code if the command must end, or nullopt if it should run.
  absl::optional<int> ParseOrAnswer(const std::vector<std::string>& arguments,
                                    const Environment& environment);

  // Returns where the value of a flag comes from, such as "--workers" or
  // "TRIBUTARY_WORKERS"; an empty string if the flag was not given. Call after
  // Parse.
  std::string OriginOf(const std::string& name) const;

  // Returns the text of --help, with examples first and lines of at most 80
  // columns.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // Empty for a switch.
    std::string help;
    bool hidden = false;
    bool repeated = false;
    // Parses one value of the flag. The error states what was expected.
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
  std::vector<std::string>* all_ = nullptr;
};

// Wraps `text` at spaces into lines of at most `width` columns. Indents each
// line by `indent` spaces, except the first, which starts at column
// `first_column`.
std::string WrapText(const std::string& text, int indent, int width,
                     int first_column);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_COMMAND_LINE_H_
