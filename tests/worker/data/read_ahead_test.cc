#include "worker/data/read_ahead.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int64_t kSamples = 1000;

// Features are the indexes, labels the epoch. Knows who read what, and can hold
// up reads.
class FakeDataSet final : public DataSet {
 public:
  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return kSamples; }
  int64_t evaluation_samples() const override { return 0; }
  uint64_t fingerprint() const override { return 0; }

  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    absl::MutexLock lock(&mu_);
    ++begun_;
    readers_.push_back(std::this_thread::get_id());
    // Held-up reads are those of other threads than the test's.
    if (std::this_thread::get_id() != test_thread_) {
      mu_.Await(absl::Condition(&open_));
    }
    batch->samples = static_cast<int64_t>(indexes.size());
    batch->features.assign(indexes.begin(), indexes.end());
    batch->labels.assign(indexes.size(), static_cast<int32_t>(epoch));
    ++ended_;
  }
  void ReadEvaluation(int64_t, int64_t, Batch*) const override {}

  void SetOpen(bool open) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    open_ = open;
  }
  void AwaitBegun(int count) const ABSL_LOCKS_EXCLUDED(mu_) {
    const auto reached = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return begun_ >= count;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&reached));
  }
  void AwaitEnded(int count) const ABSL_LOCKS_EXCLUDED(mu_) {
    const auto reached = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return ended_ >= count;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&reached));
  }
  int begun() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return begun_;
  }
  // Reads by the thread that made this object.
  int ReadsHere() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return static_cast<int>(
        std::count(readers_.begin(), readers_.end(), test_thread_));
  }

 private:
  const DataInfo info_;
  const std::thread::id test_thread_ = std::this_thread::get_id();
  mutable absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  mutable int begun_ ABSL_GUARDED_BY(mu_) = 0;
  mutable int ended_ ABSL_GUARDED_BY(mu_) = 0;
  mutable std::vector<std::thread::id> readers_ ABSL_GUARDED_BY(mu_);
};

class ReadAheadTest : public testing::Test {
 protected:
  // That the batch is that of the micro-batch.
  void ExpectIsMicroBatch(const std::shared_ptr<const Batch>& batch,
                          int64_t step, int micro_batch) const {
    ASSERT_NE(batch, nullptr);
    const Sampler::MicroBatch expected =
        sampler_.MicroBatchOf(step, micro_batch);
    EXPECT_EQ(
        std::vector<int64_t>(batch->features.begin(), batch->features.end()),
        expected.indexes);
    EXPECT_THAT(batch->labels, testing::Each(expected.epoch));
  }

  FakeDataSet data_;
  const Sampler sampler_{/*seed=*/1, kSamples, /*global_batch=*/24,
                         /*micro_batches=*/4};
};

TEST_F(ReadAheadTest, ReadsWhatIsExpectedInThreadsOfItsOwn) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/2, /*depth=*/8);
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
    ahead.Expect(60, micro_batch);
  }
  data_.AwaitEnded(4);
  for (int micro_batch = 3; micro_batch >= 0; --micro_batch) {
    ExpectIsMicroBatch(ahead.Take(60, micro_batch), 60, micro_batch);
  }
  EXPECT_EQ(data_.begun(), 4);
  EXPECT_EQ(data_.ReadsHere(), 0);
}

TEST_F(ReadAheadTest, TakesOfUnexpectedMicroBatchesReadInTheCaller) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  ExpectIsMicroBatch(ahead.Take(3, 1), 3, 1);
  EXPECT_EQ(data_.ReadsHere(), 1);
}

TEST_F(ReadAheadTest, MicroBatchesNotBegunAreReadInTheCaller) {
  data_.SetOpen(false);
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  ahead.Expect(0, 0);
  data_.AwaitBegun(1);  // The only thread is busy.
  ahead.Expect(0, 1);
  ExpectIsMicroBatch(ahead.Take(0, 1), 0, 1);
  EXPECT_EQ(data_.ReadsHere(), 1);
  data_.SetOpen(true);
  ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  EXPECT_EQ(data_.begun(), 2);
}

TEST_F(ReadAheadTest, TakesWaitForTheThreadThatReads) {
  data_.SetOpen(false);
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  ahead.Expect(0, 0);
  data_.AwaitBegun(1);
  std::thread taker([&] { ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0); });
  data_.SetOpen(true);
  taker.join();
  EXPECT_EQ(data_.begun(), 1);
}

TEST_F(ReadAheadTest, TryTakeWaitsForNothing) {
  data_.SetOpen(false);
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  EXPECT_EQ(ahead.TryTake(0, 0), nullptr);
  ahead.Expect(0, 0);
  ahead.Expect(0, 1);
  data_.AwaitBegun(1);
  EXPECT_EQ(ahead.TryTake(0, 0), nullptr);  // Being read.
  EXPECT_EQ(ahead.TryTake(0, 1), nullptr);  // Not begun.
  EXPECT_EQ(data_.ReadsHere(), 0);
  data_.SetOpen(true);
  ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  std::shared_ptr<const Batch> batch;
  while ((batch = ahead.TryTake(0, 1)) == nullptr) std::this_thread::yield();
  ExpectIsMicroBatch(batch, 0, 1);
  EXPECT_EQ(ahead.TryTake(0, 1), nullptr);  // Forgotten.
}

TEST_F(ReadAheadTest, RepeatsAreIgnored) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  for (int i = 0; i < 5; ++i) ahead.Expect(0, 0);
  data_.AwaitEnded(1);
  ahead.Expect(0, 0);
  ahead.Expect(0, 1);
  data_.AwaitEnded(2);  // In order: no other read of (0, 0) was asked for.
  EXPECT_EQ(data_.begun(), 2);
}

TEST_F(ReadAheadTest, DropsTheOldestWhenFull) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/2);
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    ahead.Expect(0, micro_batch);
    data_.AwaitEnded(micro_batch + 1);
  }
  ExpectIsMicroBatch(ahead.Take(0, 1), 0, 1);
  ExpectIsMicroBatch(ahead.Take(0, 2), 0, 2);
  EXPECT_EQ(data_.ReadsHere(), 0);
  ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  EXPECT_EQ(data_.ReadsHere(), 1);
}

TEST_F(ReadAheadTest, AMicroBatchTakenIsForgotten) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/2);
  ahead.Expect(0, 0);
  data_.AwaitEnded(1);
  ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  EXPECT_EQ(data_.ReadsHere(), 1);
}

// After a loss, another worker may have computed the micro-batch of a step for
// which this one has read the samples.
TEST_F(ReadAheadTest, SamplesOfAnEarlierStepAreNotTaken) {
  ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/8);
  ahead.Expect(2, 1);
  data_.AwaitEnded(1);
  EXPECT_EQ(ahead.TryTake(3, 1), nullptr);
  ExpectIsMicroBatch(ahead.Take(3, 1), 3, 1);
}

TEST_F(ReadAheadTest, WorksWithoutThreadsOrDepth) {
  for (const int depth : {0, 4}) {
    ReadAhead ahead(&data_, &sampler_, /*threads=*/4 - depth, depth);
    ahead.Expect(0, 0);
    ExpectIsMicroBatch(ahead.Take(0, 0), 0, 0);
  }
  EXPECT_EQ(data_.ReadsHere(), 2);
}

TEST_F(ReadAheadTest, BatchesOutliveIt) {
  std::shared_ptr<const Batch> batch;
  {
    ReadAhead ahead(&data_, &sampler_, /*threads=*/1, /*depth=*/2);
    ahead.Expect(0, 0);
    batch = ahead.Take(0, 0);
  }
  ExpectIsMicroBatch(batch, 0, 0);
}

TEST_F(ReadAheadTest, EndsWhileMicroBatchesWaitAndAreRead) {
  data_.SetOpen(false);
  auto ahead = std::make_unique<ReadAhead>(&data_, &sampler_, /*threads=*/2,
                                           /*depth=*/16);
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
    ahead->Expect(0, micro_batch);
  }
  data_.AwaitBegun(2);
  absl::Notification ended;
  std::thread ending([&] {
    ahead.reset();
    ended.Notify();
  });
  EXPECT_FALSE(ended.HasBeenNotified());  // The reads in progress hold it up.
  data_.SetOpen(true);
  ended.WaitForNotification();
  ending.join();
}

TEST_F(ReadAheadTest, ManyThreadsTakeEachMicroBatchOnce) {
  constexpr int kSteps = 50;
  ReadAhead ahead(&data_, &sampler_, /*threads=*/3, /*depth=*/6);
  std::vector<std::thread> takers;
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
    takers.emplace_back([&, micro_batch] {
      for (int64_t step = 0; step < kSteps; ++step) {
        ahead.Expect(step + 1, micro_batch);
        ExpectIsMicroBatch(ahead.Take(step, micro_batch), step, micro_batch);
      }
    });
  }
  for (std::thread& taker : takers) taker.join();
}

}  // namespace
}  // namespace tributary
