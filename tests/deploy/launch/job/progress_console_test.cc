#include "deploy/launch/job/progress_console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/launch/job/output_fixture.h"

namespace tributary {
namespace {

using ::testing::StartsWith;

class ProgressConsoleTest : public OutputFixture {
 protected:
  static StatusReply At(int64_t step) {
    StatusReply status;
    status.set_phase(StatusReply::TRAINING);
    status.set_step(step);
    status.set_steps(100);
    return status;
  }

  static JobEvent Event(JobEvent::Severity severity, const std::string& kind,
                        const std::string& message) {
    JobEvent event;
    event.set_severity(severity);
    event.set_kind(kind);
    event.set_message(message);
    return event;
  }
};

TEST_F(ProgressConsoleTest, WritesStepsAndEvents) {
  {
    ProgressConsole console(pipe_[1], /*json=*/false);
    console.Tell(Event(JobEvent::INFO, "worker_joined", "worker 0 has joined"));
    console.Show(At(1));
    console.Tell(Event(JobEvent::WARNING, "worker_lost", "worker 0: \x1b[0m"));
    // The process reports the error itself.
    console.Tell(Event(JobEvent::ERROR, "failed", "no worker"));
    console.Show(At(2));  // Ten seconds have not passed.
  }
  EXPECT_EQ(Written(),
            "worker 0 has joined\nstep 1/100 1%\nwarning: worker 0: "
            "\\x1b[0m\n");
}

TEST_F(ProgressConsoleTest, NamesOneCheckpointPerMinute) {
  {
    ProgressConsole console(pipe_[1], /*json=*/false);
    for (int i = 1; i <= 3; ++i) {
      console.Tell(
          Event(JobEvent::INFO, "checkpoint", absl::StrCat("checkpoint ", i)));
    }
  }
  EXPECT_EQ(Written(), "checkpoint 1\n");
}

TEST_F(ProgressConsoleTest, EndsWithTheResults) {
  const std::string folder = getenv("TEST_TMPDIR");
  std::ofstream(folder + "/summary.json")
      << R"({"steps": 100, "final_loss": 1.5})";
  {
    ProgressConsole console(pipe_[1], /*json=*/false);
    console.ShowResults(folder);
  }
  EXPECT_THAT(Written(), StartsWith("step 100/100 100% | loss 1.5000\n"
                                    "final loss   1.5000\n"));
  {
    ProgressConsole console(pipe_[1], /*json=*/true);
    console.ShowResults(folder);
  }
  EXPECT_EQ(nlohmann::json::parse(Written())["step"], 100);
}

TEST_F(ProgressConsoleTest, DoesNotWaitForAReaderThatDoesNotRead) {
  const std::string block(4096, 'x');
  while (write(pipe_[1], block.data(), block.size()) > 0) {
  }
  ASSERT_EQ(fcntl(pipe_[1], F_SETFL, 0), 0);  // Writing blocks.
  ProgressConsole console(pipe_[1], /*json=*/false);
  for (size_t i = 0; i <= 2 * ProgressConsole::kMostWaiting; ++i) {
    console.Tell(Event(JobEvent::WARNING, "worker_lost", block));
  }
}

}  // namespace
}  // namespace tributary
