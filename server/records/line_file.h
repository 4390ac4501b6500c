// A file to which lines are appended.
#ifndef TRIBUTARY_SERVER_RECORDS_LINE_FILE_H_
#define TRIBUTARY_SERVER_RECORDS_LINE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Appends lines to a file, which contains only whole lines: a line that cannot
// be written completely, for example because the disk is full, is removed
// again, as is an incomplete last line that a killed process has left. Later
// lines can be written when there is space again. Not thread-safe.
class LineFile {
 public:
  LineFile() = default;
  ~LineFile() { Close(); }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Opens, or creates, the file, and closes the previous one. Returns the
  // system's error if that fails.
  absl::Status Open(const std::string& path);
  bool is_open() const { return fd_ >= 0; }
  // Writes `line`, which contains no line end. Returns the system's error if
  // the line was not written. The file must be open.
  absl::Status Append(absl::string_view line);

 private:
  void Close();

  std::string path_;
  int fd_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RECORDS_LINE_FILE_H_
