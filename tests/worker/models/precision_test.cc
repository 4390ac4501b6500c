// Models in bfloat16 beside the same ones in float32.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/model_harness.h"

namespace tributary {
namespace {

struct Case {
  std::string name;
  std::string spec;
  DataInfo info;
};

class PrecisionTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kSamples = 8;

  const Batch batch_ = MakeBatch(GetParam().info, kSamples, /*seed=*/1);
  ModelHarness float32_{ParseModel(GetParam().spec), GetParam().info, kSamples};
  ModelHarness bfloat16_{ParseModel(GetParam().spec), GetParam().info, kSamples,
                         Precision::kBfloat16};
};

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

TEST_P(PrecisionTest, LossAndGradientAreNearThoseInFloat32) {
  const LossSums expected = float32_.Step(batch_);
  const LossSums sums = bfloat16_.Step(batch_);
  EXPECT_EQ(sums.sample_count, expected.sample_count);
  // Each layer rounds by up to 1/256; roundings of many elements cancel.
  EXPECT_NEAR(sums.loss, expected.loss, 0.01 * expected.loss);
  EXPECT_NE(sums.loss, expected.loss);
  std::vector<float> g = float32_.Gradients(), h = bfloat16_.Gradients();
  const std::vector<float>& vectors = float32_.VectorGradients();
  g.insert(g.end(), vectors.begin(), vectors.end());
  const std::vector<float>& rounded = bfloat16_.VectorGradients();
  h.insert(h.end(), rounded.begin(), rounded.end());
  const double cosine = Dot(g, h) / std::sqrt(Dot(g, g) * Dot(h, h));
  EXPECT_GT(cosine, 0.99);
  EXPECT_NEAR(std::sqrt(Dot(h, h) / Dot(g, g)), 1, 0.05);
}

TEST_P(PrecisionTest, ActivationsTakeLessMemory) {
  EXPECT_LT(bfloat16_.model()->memory_bytes(),
            float32_.model()->memory_bytes() +
                2 * float32_.layout().arena_elements());
}

INSTANTIATE_TEST_SUITE_P(
    Families, PrecisionTest,
    testing::Values(
        Case{"mlp", "mlp { hidden: 100 hidden: 30 }", RowInfo(50, 10)},
        Case{"regression",
             "mlp { hidden: 30 activation: GELU } loss: MEAN_SQUARED_ERROR",
             RowInfo(50, 0)},
        Case{"cnn", "cnn { block { channels: 16 } block { channels: 8 } }",
             ImageInfo(1, 12, 12, 10)},
        Case{"dlrm", "dlrm { bottom: 30 top: 40 }", FeatureInfo(9, {8, 8, 8})},
        Case{"deepfm", "deepfm { hidden: 40 }", FeatureInfo(9, {9, 9, 9, 9})},
        Case{"dcn_v2", "dcn_v2 { hidden: 40 }", FeatureInfo(9, {8, 3, 8})},
        Case{"gpt", "gpt { layers: 2 width: 32 heads: 2 context: 16 }",
             TokenInfo(16, 256)}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tributary
