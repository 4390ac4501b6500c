#include "library/handover.h"

#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Runs Handover::Do on a thread, as a compute thread of the trainer does.
class Trainer {
 public:
  Trainer(Handover* handover, Work* work)
      : thread_([this, handover, work] { status_ = handover->Do(work); }) {}
  ~Trainer() {
    if (thread_.joinable()) thread_.join();
  }
  absl::Status Join() {
    thread_.join();
    return status_;
  }

 private:
  absl::Status status_;
  std::thread thread_;
};

TEST(HandoverTest, AnItemIsThereWhenTheProgramHasFinishedTheOneBefore) {
  Handover handover;
  Work first;
  Trainer of_first(&handover, &first);
  ASSERT_EQ(handover.Await(), &first);
  Work second;
  Trainer of_second(&handover, &second);
  // Does not hand over the second item before the first is finished.
  EXPECT_EQ(handover.Await(), &first);
  handover.Done(absl::OkStatus());
  EXPECT_EQ(handover.Await(), &second);
  EXPECT_TRUE(of_first.Join().ok());
  handover.Done(absl::AbortedError("given up"));
  EXPECT_EQ(of_second.Join(), absl::AbortedError("given up"));
}

TEST(HandoverTest, CloseCancelsTheItemsThatAreNotFinished) {
  Handover handover;
  Work finished;
  Trainer of_finished(&handover, &finished);
  ASSERT_EQ(handover.Await(), &finished);
  handover.Done(absl::OkStatus());
  Work left;
  Trainer of_left(&handover, &left);
  ASSERT_EQ(handover.Await(), &left);
  handover.Close();
  EXPECT_TRUE(of_finished.Join().ok());
  EXPECT_EQ(of_left.Join().code(), absl::StatusCode::kCancelled);
  Work late;
  EXPECT_EQ(handover.Do(&late).code(), absl::StatusCode::kCancelled);
  // The program may not know yet.
  handover.Done(absl::OkStatus());
  EXPECT_FALSE(late.done.has_value());
}

TEST(HandoverTest, EndEndsTheWaitOfTheProgram) {
  Handover handover;
  handover.End(absl::UnavailableError("no server"));
  EXPECT_EQ(handover.Await(), nullptr);
  EXPECT_EQ(handover.AwaitJob(), std::nullopt);
  EXPECT_EQ(handover.end(), absl::UnavailableError("no server"));
}

}  // namespace
}  // namespace tributary
