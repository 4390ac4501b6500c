#include "deploy/status/status_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

StatusReply Training(int workers) {
  StatusReply status;
  status.set_phase(StatusReply::TRAINING);
  status.set_step(30);
  status.set_steps(120);
  for (int i = 0; i < workers; ++i) {
    ProcessStatus* const process = status.add_process();
    process->set_role("worker");
    process->set_number(i);
    process->set_phase("forward");
  }
  return status;
}

TEST(FormatProcessesTest, SaysWhoHangsAndWhy) {
  StatusReply status;
  EXPECT_EQ(FormatProcesses(status), "");
  ProcessStatus* process = status.add_process();
  process->set_role("server");
  process->set_step(12);
  process->set_phase("ready");
  process->set_silent_ms(-1);
  process->set_waits_for("worker 1: backward");
  process = status.add_process();
  process->set_role("worker");
  process->set_number(1);
  process->set_place("alpha, process 4711");
  process->set_step(-1);
  process->set_silent_ms(4060);
  EXPECT_EQ(
      FormatProcesses(status),
      "\nprocess            step  phase       silent  waits for           "
      "         at"
      "\nserver 0             12  ready            -  worker 1: backward  "
      "         "
      "\nworker 1              -  starting     4.1 s  -                   "
      "         alpha, process 4711");
}

TEST(StatusScreenTest, SeparatesStatusesWithoutATerminal) {
  StatusScreen screen(0, 0);
  const std::string first = screen.Show(Training(1), absl::ZeroDuration());
  EXPECT_THAT(first, AllOf(StartsWith("[##########............................"
                                      "..]\nstep 30/120"),
                           HasSubstr("\nworker 0 "), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(screen.Show(Training(1), absl::ZeroDuration()),
            absl::StrCat("\n", first));
}

TEST(StatusScreenTest, ReplacesTheStatusOnATerminal) {
  StatusScreen screen(60, 24);
  EXPECT_THAT(screen.Show(Training(2), absl::ZeroDuration()), StartsWith("["));
  // The bar, the progress line, the heads and two workers.
  EXPECT_THAT(screen.Show(Training(1), absl::ZeroDuration()),
              AllOf(StartsWith("\x1b[5A\r["), HasSubstr("\x1b[J")));
  EXPECT_THAT(screen.Show(Training(1), absl::ZeroDuration()),
              StartsWith("\x1b[4A\r["));
}

TEST(StatusScreenTest, CutsWhatDoesNotFit) {
  StatusScreen screen(30, 8);
  const std::string text = screen.Show(Training(64), absl::ZeroDuration());
  int lines = 0;
  size_t begin = 0;
  for (size_t end; (end = text.find("\x1b[K\n", begin)) != std::string::npos;
       begin = end + 4) {
    EXPECT_LE(end - begin, 29u);
    ++lines;
  }
  EXPECT_EQ(lines, 7) << "one row is left for the cursor";
  EXPECT_THAT(text, HasSubstr("and 61 more"));
}

TEST(StatusScreenTest, SaysHowOldTheStatusIs) {
  StatusScreen screen(0, 0);
  EXPECT_THAT(screen.Show(Training(1), absl::Seconds(2)),
              Not(HasSubstr("no answer")));
  EXPECT_THAT(screen.Show(Training(1), absl::Seconds(7)),
              HasSubstr("] no answer for 7 s\n"));
}

TEST(StatusScreenTest, ShowsControlCharactersOfPeersEscaped) {
  StatusReply status = Training(1);
  status.mutable_process(0)->set_place("\x1b[2Jhost");
  StatusScreen screen(100, 24);
  EXPECT_THAT(screen.Show(status, absl::ZeroDuration()),
              Not(HasSubstr("\x1b[2J")));
}

}  // namespace
}  // namespace tributary
