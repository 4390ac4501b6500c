#include "worker/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// All samples of an epoch in their order.
std::vector<int64_t> Order(uint64_t seed, int64_t epoch, int64_t samples) {
  return Sampler(seed, samples, /*global_batch=*/samples, /*micro_batches=*/1)
      .MicroBatchOf(/*step=*/epoch, /*micro_batch=*/0)
      .indexes;
}

TEST(SamplerTest, EachEpochVisitsEverySampleOnce) {
  std::vector<int64_t> sizes(200);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const int64_t size : {255, 256, 257, 1000, 1023, 4096, 8000, 8001}) {
    sizes.push_back(size);
  }
  for (const int64_t size : sizes) {
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> order = Order(/*seed=*/1, epoch, size);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(static_cast<int64_t>(order.size()), size);
      for (int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(order[static_cast<size_t>(i)], i) << size;
      }
    }
  }
}

TEST(SamplerTest, LargeDataSetsAreInRangeWithoutRepeats) {
  for (const int64_t size :
       {(int64_t{1} << 32) + 1, (int64_t{1} << 50) - 3, int64_t{1} << 62}) {
    const Sampler sampler(/*seed=*/1, size, /*global_batch=*/1000,
                          /*micro_batches=*/1);
    std::vector<int64_t> indexes = sampler.MicroBatchOf(7, 0).indexes;
    EXPECT_GE(*std::min_element(indexes.begin(), indexes.end()), 0);
    EXPECT_LT(*std::max_element(indexes.begin(), indexes.end()), size);
    std::sort(indexes.begin(), indexes.end());
    EXPECT_EQ(std::unique(indexes.begin(), indexes.end()), indexes.end());
  }
}

// The micro-batches are part of every result: these numbers must never change.
TEST(SamplerTest, OrdersStayWhatTheyAre) {
  EXPECT_THAT(Order(/*seed=*/1, /*epoch=*/0, /*samples=*/10),
              ElementsAre(7, 5, 6, 9, 1, 2, 8, 0, 3, 4));
  EXPECT_THAT(Order(/*seed=*/1, /*epoch=*/1, /*samples=*/10),
              ElementsAre(6, 3, 4, 1, 7, 0, 5, 2, 9, 8));
  EXPECT_THAT(
      Sampler(/*seed=*/0x123456789abcdef0, /*samples=*/60000,
              /*global_batch=*/64, /*micro_batches=*/8)
          .MicroBatchOf(/*step=*/12345, /*micro_batch=*/3)
          .indexes,
      ElementsAre(48761, 36397, 26855, 14848, 38160, 55204, 47091, 52492));
}

TEST(SamplerTest, EpochsAndSeedsDiffer) {
  EXPECT_NE(Order(1, 0, 100), Order(1, 1, 100));
  EXPECT_NE(Order(1, 0, 100), Order(2, 0, 100));
  // Seeds and epochs that agree in their lower 32 bits.
  EXPECT_NE(Order(1, 0, 100), Order((uint64_t{1} << 32) + 1, 0, 100));
  EXPECT_NE(Order(1, 0, 100), Order(1, int64_t{1} << 32, 100));
  EXPECT_EQ(Order(1, 0, 100), Order(1, 0, 100));
}

double ChiSquared(const std::vector<int>& counts, double expected) {
  double sum = 0;
  for (const int count : counts) {
    sum += (count - expected) * (count - expected) / expected;
  }
  return sum;
}

// Limits are the mean of the chi-squared distribution plus five standard
// deviations; with fixed seeds the tests always have the same outcome.
double ChiSquaredLimit(double freedom) {
  return freedom + 5 * std::sqrt(2 * freedom);
}

TEST(SamplerTest, EverySampleIsEquallyLikelyAtEveryPlace) {
  constexpr int kEpochs = 4000;
  for (const int size : {2, 3, 5, 16, 17, 40}) {
    std::vector<int> counts(static_cast<size_t>(size * size));
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<int64_t> order = Order(/*seed=*/3, epoch, size);
      for (int place = 0; place < size; ++place) {
        ++counts[static_cast<size_t>(place * size +
                                     order[static_cast<size_t>(place)])];
      }
    }
    // Rows and columns of the table have fixed sums.
    EXPECT_LT(ChiSquared(counts, static_cast<double>(kEpochs) / size),
              ChiSquaredLimit((size - 1) * (size - 1)))
        << size;
  }
}

TEST(SamplerTest, EveryOrderOfAFewSamplesIsEquallyLikely) {
  constexpr int kEpochs = 24000;
  for (const int size : {2, 3, 4}) {
    int orders = 1;
    for (int i = 2; i <= size; ++i) orders *= i;
    std::map<std::vector<int64_t>, int> seen;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      ++seen[Order(/*seed=*/9, epoch, size)];
    }
    EXPECT_EQ(static_cast<int>(seen.size()), orders);
    std::vector<int> counts;
    for (const auto& order : seen) counts.push_back(order.second);
    EXPECT_LT(ChiSquared(counts, static_cast<double>(kEpochs) / orders),
              ChiSquaredLimit(orders - 1))
        << size;
  }
}

TEST(SamplerTest, NeighboursAreIndependent) {
  // The distance of two successive samples, cut into eighths of the data.
  constexpr int64_t kSize = 60000;
  const std::vector<int64_t> order = Order(/*seed=*/4, /*epoch=*/0, kSize);
  std::vector<int> counts(8);
  for (size_t i = 1; i < order.size(); ++i) {
    const int64_t distance = (order[i] - order[i - 1] + kSize) % kSize;
    ++counts[static_cast<size_t>(distance * 8 / kSize)];
  }
  EXPECT_LT(ChiSquared(counts, (kSize - 1) / 8.0), ChiSquaredLimit(7));
}

TEST(SamplerTest, MicroBatchesAreTheBatchCutIntoEqualParts) {
  const Sampler whole(/*seed=*/1, /*samples=*/100, /*global_batch=*/12,
                      /*micro_batches=*/1);
  const Sampler parts(/*seed=*/1, /*samples=*/100, /*global_batch=*/12,
                      /*micro_batches=*/4);
  for (int64_t step = 0; step < 30; ++step) {
    std::vector<int64_t> joined;
    for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
      const Sampler::MicroBatch part = parts.MicroBatchOf(step, micro_batch);
      EXPECT_EQ(part.epoch, step / 9);
      joined.insert(joined.end(), part.indexes.begin(), part.indexes.end());
    }
    EXPECT_EQ(joined, whole.MicroBatchOf(step, 0).indexes);
  }
}

TEST(SamplerTest, TheLastBatchOfAnEpochMayBeShort) {
  const Sampler sampler(/*seed=*/1, /*samples=*/21, /*global_batch=*/8,
                        /*micro_batches=*/4);
  EXPECT_EQ(sampler.steps_per_epoch(), 3);
  // 5 samples are left.
  EXPECT_EQ(sampler.MicroBatchOf(2, 0).indexes.size(), 2u);
  EXPECT_EQ(sampler.MicroBatchOf(2, 1).indexes.size(), 2u);
  EXPECT_EQ(sampler.MicroBatchOf(2, 2).indexes.size(), 1u);
  EXPECT_THAT(sampler.MicroBatchOf(2, 3).indexes, IsEmpty());
  EXPECT_EQ(sampler.MicroBatchOf(3, 0).epoch, 1);
  EXPECT_EQ(sampler.MicroBatchOf(3, 0).indexes.size(), 2u);
}

TEST(SamplerTest, ABatchMayBeLargerThanTheData) {
  const Sampler sampler(/*seed=*/1, /*samples=*/3, /*global_batch=*/8,
                        /*micro_batches=*/4);
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  EXPECT_EQ(sampler.MicroBatchOf(5, 0).epoch, 5);
  EXPECT_EQ(sampler.MicroBatchOf(5, 1).indexes.size(), 1u);
  EXPECT_THAT(sampler.MicroBatchOf(5, 2).indexes, IsEmpty());
}

}  // namespace
}  // namespace tributary
