// Errors of protobuf's text parser, in our words. Internal to //common:job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_TEXT_H_
#define TRIBUTARY_COMMON_JOB_JOB_TEXT_H_

#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Keeps the first error: later ones are mostly its consequences.
class FirstError : public ::google::protobuf::io::ErrorCollector {
 public:
  // `text` is what the parser reads, and must outlive this object.
  explicit FirstError(absl::string_view text) : text_(text) {}

  // ":12:5: ..." with line and column, from 1, or ": ..." where it has no
  // place: goes behind a file's name. Empty if there was no error.
  const std::string& message() const { return message_; }
  // The same without line and column.
  const std::string& what() const { return what_; }

  // Lines and columns count from 0; line -1 is the text as a whole.
  void AddError(int line, int column, const std::string& message) override;
  // The only warnings are about deprecated fields, of which there are none.
  void AddWarning(int, int, const std::string&) override {}

 private:
  const absl::string_view text_;
  std::string message_;
  std::string what_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_TEXT_H_
