#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using testing::ExitedWithCode;

TEST(EndWorkerProcessDeathTest, ExitsWithTheCodesThatLaunchersExpect) {
  EXPECT_EXIT(EndWorkerProcess(absl::OkStatus()), ExitedWithCode(0), "^$");
  EXPECT_EXIT(EndWorkerProcess(absl::OutOfRangeError("the job is done")),
              ExitedWithCode(0), "^$");
  EXPECT_EXIT(EndWorkerProcess(absl::CancelledError("stopped")),
              ExitedWithCode(75), "error: stopped");
  EXPECT_EXIT(EndWorkerProcess(absl::InvalidArgumentError("bad")),
              ExitedWithCode(2), "error: bad");
  EXPECT_EXIT(EndWorkerProcess(absl::NotFoundError("no file")),
              ExitedWithCode(2), "error: no file");
  EXPECT_EXIT(EndWorkerProcess(absl::InternalError("broken")),
              ExitedWithCode(1), "error: broken");
}

}  // namespace
}  // namespace tributary
