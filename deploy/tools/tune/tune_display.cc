#include "deploy/tools/tune/tune_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/text/escape.h"

namespace tributary {
namespace {

constexpr size_t kUsualWidth = 80;

size_t WidthOf(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col
                                                              : kUsualWidth;
}

}  // namespace

void TuneDisplay::Write(const std::string& text) {
  // A terminal that has gone away must not end the search.
  const ssize_t ignored = write(fd_, text.data(), text.size());
  static_cast<void>(ignored);
}

void TuneDisplay::Clear() {
  if (shown_.empty()) return;
  // Up by the lines of the table, then clears to the end of the screen.
  Write(absl::StrCat("\x1b[", shown_.size(), "A\x1b[J"));
  shown_.clear();
}

void TuneDisplay::Message(const std::string& line) {
  if (quiet_) return;
  const std::vector<std::string> table = shown_;
  Clear();
  Write(absl::StrCat(EscapeForTerminal(line), "\n"));
  Update(table);
}

void TuneDisplay::Update(const std::vector<std::string>& lines) {
  if (!terminal_ || lines == shown_) return;
  Clear();
  const size_t width = WidthOf(fd_);
  std::string text;
  for (const std::string& line : lines) {
    // A longer line would be wrapped, and count as two.
    absl::StrAppend(&text, EscapeForTerminal(line).substr(0, width - 1), "\n");
  }
  Write(text);
  shown_ = lines;
}

}  // namespace tributary
