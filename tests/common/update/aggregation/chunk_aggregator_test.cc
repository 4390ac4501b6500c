#include "common/update/aggregation/chunk_aggregator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/reduction_tree.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kLeaves = 8;
// Not a multiple of a block.
constexpr int kElements = static_cast<int>(TreeSum::kBlock) + 21;

// Values whose sum depends on the order of additions, and on where it is
// rounded.
float LeafValue(int leaf, int element) {
  const float scale[] = {1e3f, 1.f, -1e3f, 0.1f, 3e2f, -7.f, 1e-3f, 5e1f};
  return scale[leaf] * (1.f + 0.0123f * static_cast<float>(element % 100));
}

float Rounded(WireDtype dtype, float value) {
  RoundTo(dtype, &value, 1);
  return value;
}

// The sum under a node, in the order of the tree, written down independently.
float Expected(WireDtype dtype, int node, int element) {
  if (node >= kLeaves)
    return Rounded(dtype, LeafValue(node - kLeaves, element));
  return Rounded(dtype, Expected(dtype, 2 * node, element) +
                            Expected(dtype, 2 * node + 1, element));
}

// A gradient that must be copied to be read, as those from the wire.
class Remote final : public GradientSource {
 public:
  explicit Remote(std::shared_ptr<std::vector<float>> values)
      : values_(std::move(values)) {}
  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    std::memcpy(scratch, values_->data() + begin, count * sizeof(float));
    return scratch;
  }

 private:
  const std::shared_ptr<std::vector<float>> values_;
};

// One that adds itself.
class Adding final : public GradientSource {
 public:
  explicit Adding(std::shared_ptr<std::vector<float>> values)
      : values_(std::move(values)) {}
  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    std::copy_n(values_->data() + begin, count, scratch);
    return scratch;
  }
  bool sparse() const override { return true; }
  void Add(int64_t begin, int64_t count, float* sum) const override {
    for (int64_t i = 0; i < count; ++i) sum[i] += (*values_)[begin + i];
  }

 private:
  const std::shared_ptr<std::vector<float>> values_;
};

// What every contribution held when it was made.
using Contents = std::vector<
    std::pair<std::shared_ptr<std::vector<float>>, std::vector<float>>>;

class ChunkAggregatorTest : public ::testing::TestWithParam<WireDtype> {
 protected:
  NodeSum Contribution(int node) {
    auto values = std::make_shared<std::vector<float>>(kElements);
    for (int i = 0; i < kElements; ++i) {
      (*values)[i] = Expected(GetParam(), node, i);
    }
    contents_.emplace_back(values, *values);
    NodeSum sum;
    sum.node = node;
    const size_t kind = contents_.size() % 5;
    if (kind == 0) {
      sum.gradient = std::make_shared<GradientInMemory>(
          MemoryView{values->data(), values});
    } else if (kind < 4) {
      sum.gradient = std::make_shared<Adding>(values);
    } else {
      sum.gradient = std::make_shared<Remote>(values);
    }
    const LeafRange leaves = LeavesUnder(node, kLeaves);
    sum.sample_count = 10 * (leaves.end - leaves.begin);
    sum.loss_sum = leaves.begin;
    return sum;
  }

  void ExpectTotal() {
    ASSERT_TRUE(aggregator_.complete());
    const TreeSum total = aggregator_.Take();
    for (int64_t begin = 0; begin < kElements; begin += TreeSum::kBlock) {
      const int64_t count = std::min(TreeSum::kBlock, kElements - begin);
      const float* half = nullptr;
      const float* other = nullptr;
      total.Read(begin, count, &half, &other);
      for (int64_t i = 0; i < count; ++i) {
        const float value = half[i] + (other == nullptr ? 0 : other[i]);
        ASSERT_EQ(value, Expected(GetParam(), 1, static_cast<int>(begin + i)));
      }
    }
    EXPECT_EQ(total.sample_count(), 10 * kLeaves);
    EXPECT_FALSE(aggregator_.complete());
    // They belong to the workers.
    for (const auto& [values, before] : contents_) EXPECT_EQ(*values, before);
    contents_.clear();
  }

  ChunkAggregator aggregator_{kLeaves, GetParam()};
  Contents contents_;
};

TEST_P(ChunkAggregatorTest, SumsInTheTreesOrderWhateverTheArrivalAndTheNodes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    // Cut the leaves into random runs, as random workers would own them.
    std::vector<int> nodes;
    for (int begin = 0; begin < kLeaves;) {
      const int end =
          begin + 1 + static_cast<int>(random() % (kLeaves - begin));
      for (const int node : MaximalSubtrees({begin, end}, kLeaves)) {
        nodes.push_back(node);
      }
      begin = end;
    }
    std::shuffle(nodes.begin(), nodes.end(), random);
    for (const int node : nodes) {
      EXPECT_FALSE(aggregator_.complete());
      EXPECT_TRUE(aggregator_.Add(Contribution(node)));
    }
    ExpectTotal();
  }
}

TEST_P(ChunkAggregatorTest, TheLossIsUnknownIfThatOfAContributionIs) {
  EXPECT_TRUE(aggregator_.Add(Contribution(2)));
  NodeSum unknown = Contribution(3);
  unknown.loss_sum = LossSum::Unknown();
  EXPECT_TRUE(aggregator_.Add(std::move(unknown)));
  const TreeSum total = aggregator_.Take();
  EXPECT_EQ(total.loss_sum().value(), std::nullopt);
  EXPECT_EQ(total.nonfinite_loss_contributor(), 0);
}

TEST_P(ChunkAggregatorTest, DropsDuplicates) {
  EXPECT_TRUE(aggregator_.Add(Contribution(2)));
  EXPECT_FALSE(aggregator_.Add(Contribution(2)));
  // Under a node that is there.
  EXPECT_FALSE(aggregator_.Add(Contribution(9)));
  // Covered by its two children.
  EXPECT_TRUE(aggregator_.Add(Contribution(6)));
  EXPECT_TRUE(aggregator_.Add(Contribution(7)));
  EXPECT_FALSE(aggregator_.Add(Contribution(3)));
  ExpectTotal();
}

TEST_P(ChunkAggregatorTest, AcceptsOverlapsOfLeavesThatWereReassigned) {
  // A worker with leaves 4 to 7 sent part of them and died; another computed
  // all four as one node.
  EXPECT_TRUE(aggregator_.Add(Contribution(12)));
  EXPECT_TRUE(aggregator_.Add(Contribution(3)));
  EXPECT_TRUE(aggregator_.Add(Contribution(4)));
  EXPECT_FALSE(aggregator_.complete());
  EXPECT_TRUE(aggregator_.Add(Contribution(5)));
  ExpectTotal();
}

// A worker sends each node only once, so what it has sent must not depend on
// the contributions of a worker that is removed later.
TEST_P(ChunkAggregatorTest, KeepsWhatTheOthersHaveSentWhenAWorkerIsRemoved) {
  const auto from = [this](int64_t contributor, int node) {
    NodeSum sum = Contribution(node);
    sum.contributor = contributor;
    return sum;
  };
  EXPECT_TRUE(aggregator_.Add(from(1, 2)));
  EXPECT_TRUE(aggregator_.Add(from(2, 4)));
  EXPECT_TRUE(aggregator_.Add(from(2, 5)));
  EXPECT_TRUE(aggregator_.Add(from(1, 6)));
  EXPECT_TRUE(aggregator_.Add(from(2, 7)));
  EXPECT_TRUE(aggregator_.complete());
  EXPECT_EQ(aggregator_.FirstMissing(), std::nullopt);
  aggregator_.DropFrom(1);
  EXPECT_FALSE(aggregator_.complete());
  EXPECT_EQ(aggregator_.FirstMissing(), 4);
  EXPECT_TRUE(aggregator_.Add(from(3, 6)));
  ExpectTotal();
}

TEST_P(ChunkAggregatorTest, DropsTheRoot) {
  EXPECT_TRUE(aggregator_.Add(Contribution(1)));
  aggregator_.DropFrom(0);
  EXPECT_EQ(aggregator_.FirstMissing(), 0);
}

INSTANTIATE_TEST_SUITE_P(WireDtypes, ChunkAggregatorTest,
                         ::testing::Values(ExchangeSpec::FLOAT32,
                                           ExchangeSpec::BFLOAT16,
                                           ExchangeSpec::FLOAT16),
                         [](const auto& info) {
                           return ExchangeSpec::WireDtype_Name(info.param);
                         });

TEST(ChunkAggregator, HandlesATreeOfOneLeaf) {
  ChunkAggregator aggregator(1, ExchangeSpec::FLOAT32);
  float value = 3;
  NodeSum whole;
  whole.gradient = std::make_shared<GradientInMemory>(MemoryView{&value});
  whole.sample_count = 2;
  EXPECT_TRUE(aggregator.Add(std::move(whole)));
  ASSERT_TRUE(aggregator.complete());
  const TreeSum sum = aggregator.Take();
  const float* half = nullptr;
  const float* other = &value;
  sum.Read(0, 1, &half, &other);
  EXPECT_EQ(half, &value);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(sum.sample_count(), 2);
}

TEST(TreeSumTest, NamesTheFirstElementThatIsNotFiniteAndItsContributor) {
  static constexpr int64_t kElements = 3 * TreeSum::kBlock + 5;
  const auto sum_of = [](int node, int64_t place, float value,
                         int64_t contributor) {
    auto values = std::make_shared<std::vector<float>>(kElements, 1.f);
    (*values)[place] = value;
    NodeSum sum;
    sum.node = node;
    sum.gradient =
        std::make_shared<GradientInMemory>(MemoryView{values->data(), values});
    sum.sample_count = 1;
    sum.contributor = contributor;
    return sum;
  };
  ChunkAggregator aggregator(/*leaves=*/4, ExchangeSpec::FLOAT32);
  aggregator.Add(sum_of(4, 0, 0, /*contributor=*/7));
  aggregator.Add(sum_of(5, 3000, std::nanf(""), /*contributor=*/8));
  aggregator.Add(sum_of(3, 1025, -std::numeric_limits<float>::infinity(),
                        /*contributor=*/9));
  const TreeSum::Nonfinite found = aggregator.Take().FindNonfinite(kElements);
  EXPECT_EQ(found.element, 1025);
  EXPECT_EQ(found.contributor, 9);

  // Only their sum is infinite.
  ChunkAggregator large(/*leaves=*/2, ExchangeSpec::FLOAT32);
  large.Add(sum_of(2, 1, 3e38f, /*contributor=*/7));
  large.Add(sum_of(3, 1, 3e38f, /*contributor=*/8));
  const TreeSum::Nonfinite overflow = large.Take().FindNonfinite(kElements);
  EXPECT_EQ(overflow.element, 1);
  EXPECT_EQ(overflow.contributor, 0);
}

}  // namespace
}  // namespace tributary
