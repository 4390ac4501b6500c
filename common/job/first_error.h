// Improves the error messages of protobuf's parsers. Internal to //common/job.
#ifndef TRIBUTARY_COMMON_JOB_FIRST_ERROR_H_
#define TRIBUTARY_COMMON_JOB_FIRST_ERROR_H_

#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

// Keeps the first error of the parser, because later errors are usually
// consequences of the first.
class FirstError : public ::google::protobuf::io::ErrorCollector {
 public:
  // `text` is the parser's input and must outlive this object.
  explicit FirstError(absl::string_view text) : text_(text) {}

  // The error, formatted so that it can follow the name of a file: ":12:5: ..."
  // with line and column, both counted from 1, or ": ..." if the error has no
  // position. Empty if there was no error.
  const std::string& message() const { return message_; }
  // The error without line and column; empty if there was no error.
  const std::string& what() const { return what_; }

  // Called by the parser. `line` and `column` count from 0; line -1 refers to
  // the whole text.
  void AddError(int line, int column, const std::string& message) override;
  // Ignores warnings. The parser only warns of deprecated fields, and job files
  // have none.
  void AddWarning(int, int, const std::string&) override {}

 private:
  const absl::string_view text_;
  std::string message_;
  std::string what_;
};

// Returns a text that can follow an error in `text`: it names the format of job
// files if `text` looks like JSON or YAML, and is empty otherwise.
std::string FormatHint(absl::string_view text);

// Returns "; did you mean PATH?" with the path of a field of a job that is
// nearest to the path `typed`, whose first parts may be missing. Prefers fields
// of the messages that `job` has. Returns an empty string if none is near.
std::string DidYouMeanPath(const JobSpec& job, absl::string_view typed);

// Returns the message of protobuf's JSON parser with the path of the field and
// what is expected there. `job` is what the parser has understood. The parser
// reports names only within its text; returns an unknown text unchanged.
std::string ExplainJsonError(const JobSpec& job, const std::string& message);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_FIRST_ERROR_H_
