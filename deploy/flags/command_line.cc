#include "deploy/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/nearest.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

constexpr int kHelpWidth = 80;
// Column at which the descriptions of flags start.
constexpr int kHelpColumn = 24;

// Converts --learning_rate=x to --learning-rate=x.
std::string WithDashes(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) return argument;
  std::string result = argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::replace(result.begin(), result.begin() + end, '_', '-');
  return result;
}

std::string VariableOf(const std::string& flag) {
  return absl::StrCat("TRIBUTARY_", absl::AsciiStrToUpper(absl::StrReplaceAll(
                                        flag, {{"-", "_"}})));
}

absl::Status Expected(absl::string_view what, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", what));
}

}  // namespace

std::string WrapText(const std::string& text, int indent, int width,
                     int first_column) {
  std::string result;
  int column = first_column;
  bool line_empty = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const int length = static_cast<int>(word.size());
    if (!line_empty && column + 1 + length > width) {
      absl::StrAppend(&result, "\n", std::string(indent, ' '));
      column = indent;
      line_empty = true;
    }
    absl::StrAppend(&result, line_empty ? "" : " ", word);
    column += length + (line_empty ? 0 : 1);
    line_empty = false;
  }
  return result;
}

// The arguments as CLI11 splits them: texts that are not parsed yet.
struct CommandLine::Tokens {
  bool help = false;
  std::vector<std::vector<std::string>> values;  // Indexed by flag.
  std::vector<std::string> operands;
};

CommandLine::CommandLine(std::string name, std::string operand,
                         std::string about, std::vector<Example> examples)
    : name_(std::move(name)),
      operand_(std::move(operand)),
      about_(std::move(about)),
      examples_(std::move(examples)) {}

CommandLine::Flag& CommandLine::Add(const std::string& name,
                                    const std::string& value_name,
                                    const std::string& help) {
  Flag flag;
  flag.name = name;
  flag.value_name = value_name;
  flag.help = help;
  flags_.push_back(std::move(flag));
  return flags_.back();
}

void CommandLine::AddText(const std::string& name,
                          const std::string& value_name,
                          const std::string& help, std::string* value) {
  Add(name, value_name, help).read = [value](const std::string& text) {
    *value = text;
    return absl::OkStatus();
  };
}

void CommandLine::AddTexts(const std::string& name,
                           const std::string& value_name,
                           const std::string& help,
                           std::vector<std::string>* values) {
  Flag& flag = Add(name, value_name, help);
  flag.repeated = true;
  flag.read = [values](const std::string& text) {
    values->push_back(text);
    return absl::OkStatus();
  };
}

void CommandLine::AddChoice(const std::string& name,
                            std::vector<std::string> choices,
                            const std::string& help, std::string* value) {
  const std::string listed = absl::StrJoin(choices, "|");
  Add(name, listed, help).read = [choices = std::move(choices), listed,
                                  value](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return Expected(absl::StrCat("one of ", listed), text);
    }
    *value = text;
    return absl::OkStatus();
  };
}

void CommandLine::AddInteger(const std::string& name, const std::string& help,
                             int64_t min, int64_t max, int64_t* value) {
  Add(name, "N", help).read = [min, max, value](const std::string& text) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < min || number > max) {
      return Expected(absl::StrCat("a whole number from ", min, " to ", max),
                      text);
    }
    *value = number;
    return absl::OkStatus();
  };
}

void CommandLine::AddHiddenInteger(const std::string& name, int64_t min,
                                   int64_t max, int64_t* value) {
  AddInteger(name, "", min, max, value);
  flags_.back().hidden = true;
}

void CommandLine::AddNumber(const std::string& name, const std::string& help,
                            double min, double max, double* value) {
  Add(name, "X", help).read = [min, max, value](const std::string& text) {
    double number = 0;
    // Written so that NaN fails the check.
    if (!absl::SimpleAtod(text, &number) || !(number >= min && number <= max)) {
      return Expected(absl::StrCat("a number from ", min, " to ", max), text);
    }
    *value = number;
    return absl::OkStatus();
  };
}

void CommandLine::AddSwitch(const std::string& name, const std::string& help,
                            bool* value) {
  Add(name, "", help).read = [value](const std::string& text) {
    return absl::SimpleAtob(text, value) ? absl::OkStatus()
                                         : Expected("true or false", text);
  };
}

void CommandLine::SetOperand(bool required, std::string* value) {
  operands_.push_back({required, value});
}

absl::Status CommandLine::WithHint(const std::string& message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(message, " (see 'tributary ", name_, " --help')"));
}

absl::Status CommandLine::Unexpected(const std::string& argument) const {
  if (!absl::StartsWith(argument, "-")) {
    return WithHint(absl::StrCat("unexpected argument '", argument, "'"));
  }
  std::vector<std::string> known = {"help"};
  for (const Flag& flag : flags_) {
    if (!flag.hidden) known.push_back(flag.name);
  }
  const std::string written = argument.substr(0, argument.find('='));
  const std::string nearest =
      Nearest(absl::StripPrefix(absl::StripPrefix(written, "-"), "-"), known);
  return WithHint(absl::StrCat(
      "unknown flag ", written,
      nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?")));
}

// CLI11 reports errors by exceptions; this function catches all of them.
absl::Status CommandLine::Tokenize(const std::vector<std::string>& arguments,
                                   Tokens* tokens) const {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", tokens->help);
  tokens->values.resize(flags_.size());
  std::vector<CLI::Option*> switches(flags_.size(), nullptr);
  for (size_t i = 0; i < flags_.size(); ++i) {
    const std::string name = absl::StrCat("--", flags_[i].name);
    std::vector<std::string>& values = tokens->values[i];
    if (flags_[i].value_name.empty()) {
      switches[i] = app.add_flag(name);
    } else {
      app.add_option(name, values)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);
    }
  }
  std::vector<std::string> reversed;
  for (const std::string& argument : arguments) {
    reversed.push_back(WithDashes(argument));
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    const std::string what = mismatch.what();
    return WithHint(absl::StrCat("flag ", what.substr(0, what.find(':')),
                                 " needs a value"));
  } catch (const CLI::Error& error) {
    return WithHint(error.what());
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    if (switches[i] != nullptr) tokens->values[i] = switches[i]->results();
  }
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;
    const bool is_operand =
        (all_ != nullptr || tokens->operands.size() < operands_.size()) &&
        !absl::StartsWith(extra, "-");
    if (!is_operand) return Unexpected(extra);
    tokens->operands.push_back(extra);
  }
  return absl::OkStatus();
}

absl::Status CommandLine::ReadFlag(const std::vector<std::string>& values,
                                   const Environment& environment, Flag* flag) {
  const std::string option = absl::StrCat("--", flag->name);
  const std::string variable = VariableOf(flag->name);
  std::vector<std::string> texts = values;
  flag->origin = option;
  if (texts.empty()) {
    const absl::optional<std::string> text = environment(variable);
    if (!text.has_value() || text->empty()) {
      flag->origin.clear();
      return absl::OkStatus();
    }
    flag->origin = variable;
    if (flag->repeated) {
      texts = absl::StrSplit(*text, ';', absl::SkipWhitespace());
    } else {
      texts = {*text};
    }
  }
  for (const std::string& text : texts) {
    const absl::Status status = flag->read(text);
    if (!status.ok()) {
      return WithHint(absl::StrCat(
          flag->origin == option ? "flag " : "environment variable ",
          flag->origin, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CommandLine::Parse(
    const std::vector<std::string>& arguments, const Environment& environment) {
  Tokens tokens;
  TRIBUTARY_RETURN_IF_ERROR(Tokenize(arguments, &tokens));
  if (tokens.help) return false;
  for (size_t i = 0; i < flags_.size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadFlag(tokens.values[i], environment, &flags_[i]));
  }
  if (all_ != nullptr) {
    *all_ = tokens.operands;
    return true;
  }
  tokens.operands.resize(operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    *operands_[i].value = tokens.operands[i];
    if (operands_[i].required && tokens.operands[i].empty()) {
      return WithHint(absl::StrCat("missing ", operand_));
    }
  }
  return true;
}

absl::optional<int> CommandLine::ParseOrAnswer(
    const std::vector<std::string>& arguments, const Environment& environment) {
  const absl::StatusOr<bool> parsed = Parse(arguments, environment);
  if (!parsed.ok()) return ReportError(parsed.status());
  if (*parsed) return absl::nullopt;
  std::fputs(Help().c_str(), stdout);
  return kExitDone;
}

std::string CommandLine::OriginOf(const std::string& name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return flag.origin;
  }
  return std::string();
}

std::string CommandLine::Help() const {
  std::string help = absl::StrCat(WrapText(about_, 0, kHelpWidth, 0), "\n\n");
  absl::StrAppend(&help, "Examples:\n");
  for (const Example& example : examples_) {
    absl::StrAppend(&help, "  tributary ", example.command, "\n      ",
                    WrapText(example.meaning, 6, kHelpWidth, 6), "\n");
  }
  absl::StrAppend(&help, "\nUsage: tributary ", name_,
                  operand_.empty() ? "" : " ", operand_, " [flags]\n\n",
                  "Flags (--a-b may also be set as TRIBUTARY_A_B):\n");
  for (const Flag& flag : flags_) {
    if (flag.hidden) continue;
    std::string left = absl::StrCat("  --", flag.name);
    if (!flag.value_name.empty()) absl::StrAppend(&left, " ", flag.value_name);
    if (static_cast<int>(left.size()) + 2 > kHelpColumn) {
      absl::StrAppend(&left, "\n", std::string(kHelpColumn, ' '));
    } else {
      left.resize(kHelpColumn, ' ');
    }
    absl::StrAppend(&help, left,
                    WrapText(flag.help, kHelpColumn, kHelpWidth, kHelpColumn),
                    "\n");
  }
  return help;
}

}  // namespace tributary
