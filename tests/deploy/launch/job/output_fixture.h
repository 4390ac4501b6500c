// A fixture for what writes the progress of a job to a file descriptor.
#ifndef TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_OUTPUT_FIXTURE_H_
#define TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_OUTPUT_FIXTURE_H_

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace tributary {

class OutputFixture : public testing::Test {
 protected:
  OutputFixture() { EXPECT_EQ(pipe2(pipe_, O_NONBLOCK), 0); }
  ~OutputFixture() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }

  // Returns what was written to pipe_[1] since the last call.
  std::string Written() {
    std::string text(65536, '\0');
    const ssize_t count = read(pipe_[0], &text[0], text.size());
    text.resize(count < 0 ? 0 : count);
    return text;
  }

  int pipe_[2];
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_OUTPUT_FIXTURE_H_
