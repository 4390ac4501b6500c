#include "common/plan/memory_notice.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Processes on a host with 1 GB of memory.
ProcessStatus* AddProcess(int64_t pid, int64_t bytes, StatusReply* status) {
  ProcessStatus* const process = status->add_process();
  process->set_host("a");
  process->set_pid(pid);
  process->set_phase("forward");
  ProcessStatistics* const statistics = process->mutable_statistics();
  statistics->set_memory_bytes(1);
  statistics->set_memory_limit_bytes(1000000000);
  statistics->set_proportional_memory_bytes(bytes);
  statistics->mutable_memory_account()->set_weights(bytes - 50000000);
  statistics->mutable_memory_account()->set_program(50000000);
  return process;
}

TEST(MemoryNoticeTest, TellsWhatIsNeededAndThenWhatIsUsed) {
  MemoryNotice notice;
  StatusReply status;
  AddProcess(1, 300000000, &status);
  ProcessStatus* const worker = AddProcess(2, 400000000, &status);
  worker->mutable_statistics()->clear_memory_account();
  EXPECT_THAT(notice.Update(status), IsEmpty());
  worker->mutable_statistics()->mutable_memory_account()->set_gradients(
      400000000);
  EXPECT_THAT(notice.Update(status),
              ElementsAre(AllOf(HasSubstr("700.0 MB"), HasSubstr("host a"),
                                HasSubstr("gradients 400.0 MB"))));
  EXPECT_THAT(notice.Update(status), IsEmpty());
  status.set_step(1);
  EXPECT_THAT(notice.Update(status), ElementsAre(HasSubstr("uses 700.0 MB")));
  EXPECT_THAT(notice.Update(status), IsEmpty());
}

TEST(MemoryNoticeTest, HalfOfTheMemoryIsNotWorthALine) {
  MemoryNotice notice;
  StatusReply status;
  status.set_step(1);
  AddProcess(1, 500000000, &status);
  EXPECT_THAT(notice.Update(status), IsEmpty());
}

TEST(MemoryNoticeTest, TooMuchIsAWarning) {
  MemoryNotice notice;
  StatusReply status;
  AddProcess(1, 1200000000, &status);
  EXPECT_THAT(notice.Update(status),
              ElementsAre(AllOf(HasSubstr("warning: "), HasSubstr("--fit"))));
}

TEST(MemoryNoticeTest, ThreadsOfAProcessAreCountedOnce) {
  MemoryNotice notice;
  StatusReply status;
  status.set_step(1);
  for (int member = 0; member < 3; ++member) {
    AddProcess(1, 600000000, &status);
  }
  // The program counts twice: it also starts the others.
  EXPECT_THAT(notice.Update(status),
              ElementsAre(HasSubstr("needs 1.8 GB"), HasSubstr("600.0 MB")));
}

}  // namespace
}  // namespace tributary
