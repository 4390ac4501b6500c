#include "deploy/tools/status/status_screen.h"

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

TEST(FormatProcessesTest, ShowsMemoryLeasesAndReleasesThatDiffer) {
  StatusReply status = Training(2);
  status.mutable_process(0)->mutable_statistics()->set_memory_bytes(123456789);
  status.mutable_process(0)->set_lease_left_ms(8500);
  status.mutable_process(0)->set_release("0.3.0");
  status.mutable_process(1)->set_lease_left_ms(-1);
  status.mutable_process(1)->set_release("0.3.0");
  EXPECT_THAT(FormatProcesses(status),
              AllOf(HasSubstr("123 MB    8.5 s"), HasSubstr("   -        -"),
                    Not(HasSubstr("release"))));
  status.mutable_process(1)->set_release("0.2.0");
  EXPECT_THAT(FormatProcesses(status),
              AllOf(HasSubstr("release"), HasSubstr("0.2.0")));
}

TEST(StatusScreenTest, ShowsTheNewestEventsBelowTheProcesses) {
  StatusReply status = Training(20);
  for (int i = 0; i < 9; ++i) {
    JobEvent* const event = status.add_event();
    event->set_severity(JobEvent::WARNING);
    event->set_step(i);
    event->set_message(absl::StrCat("event ", i, "\x1b[31m"));
  }
  StatusScreen pipe(0, 0);
  const std::string all = pipe.Show(status, absl::ZeroDuration());
  EXPECT_THAT(all, AllOf(HasSubstr("warning step 4: event 4"),
                         Not(HasSubstr("event 3")), Not(HasSubstr("\x1b"))));
  EXPECT_LT(all.find("worker 19"), all.find("event 4"));
  // The table is cut to make room for events.
  StatusScreen terminal(60, 13);
  EXPECT_THAT(terminal.Show(status, absl::ZeroDuration()),
              AllOf(HasSubstr("and 16 more"), HasSubstr("event 5"),
                    HasSubstr("event 8")));
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
