// A file whose writers block, as on a disk that does not respond.
#ifndef TRIBUTARY_TESTS_SUPPORT_FULL_PIPE_H_
#define TRIBUTARY_TESTS_SUPPORT_FULL_PIPE_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tributary {

// A named pipe that is full: a program that writes to the file at `path` blocks
// until the test reads.
class FullPipe {
 public:
  // Creates the pipe at `path`, where no file may exist.
  explicit FullPipe(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
    fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(fd_, 0) << path;
    const std::string page(4096, '\n');
    while (write(fd_, page.data(), page.size()) > 0) {
    }
    while (write(fd_, page.data(), 1) > 0) {
    }
  }
  ~FullPipe() { close(fd_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  // Blocks until the lines that were written to the file, from the first one
  // on, contain `text`, and returns all lines that have been read. Fails the
  // test if nothing is written for a minute. Writers continue as soon as there
  // is room in the pipe.
  std::string ReadUntil(absl::string_view text) {
    while (!absl::StrContains(read_, text)) {
      pollfd ready = {fd_, POLLIN, 0};
      if (poll(&ready, 1, /*timeout=*/60000) == 0) {
        ADD_FAILURE() << "not written: " << text;
        break;
      }
      char bytes[4096];
      const ssize_t count = read(fd_, bytes, sizeof(bytes));
      if (count <= 0) continue;
      // The newlines that have filled the pipe.
      absl::string_view more(bytes, count);
      if (read_.empty()) {
        while (!more.empty() && more.front() == '\n') more.remove_prefix(1);
      }
      read_.append(more.data(), more.size());
    }
    return read_;
  }

 private:
  int fd_ = -1;
  std::string read_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_FULL_PIPE_H_
