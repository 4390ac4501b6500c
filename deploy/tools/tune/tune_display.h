#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_DISPLAY_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_DISPLAY_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tributary {

// Shows the progress of a search: lines that remain and, on a terminal, a table
// below them that is overwritten in place. Not thread-safe. The destructor
// removes the table.
class TuneDisplay {
 public:
  // `fd` must remain open. `terminal`: whether to show the table.
  TuneDisplay(int fd, bool terminal, bool quiet)
      : fd_(fd), terminal_(terminal && !quiet), quiet_(quiet) {}
  ~TuneDisplay() { Clear(); }
  TuneDisplay(const TuneDisplay&) = delete;
  TuneDisplay& operator=(const TuneDisplay&) = delete;

  // Shows a line that remains, unless the display is quiet.
  void Message(const std::string& line);
  // Shows the table; does nothing without a terminal.
  void Update(const std::vector<std::string>& lines);

 private:
  void Clear();
  void Write(const std::string& text);

  const int fd_;
  const bool terminal_;
  const bool quiet_;
  std::vector<std::string> shown_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_DISPLAY_H_
