#include "worker/models/gpt_decoder.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

struct Kind {
  std::string name;
  std::string gpt;
  Precision precision = Precision::kFloat32;
  bool gpu = false;
  // Logits are about 1, and products of 16 to 64 terms with different orders of
  // addition differ by a few units in the last place; with bfloat16, a rounding
  // of the stream (up to about 4) changes a logit by up to 2^-8 of it.
  double tolerance = 2e-5;
};

std::unique_ptr<Device> MakeDevice(const Kind& kind) {
  if (!kind.gpu) return CreateCpuDevice(kind.precision);
  return *CreateCudaDevice(/*ordinal=*/0, kind.precision);
}

class GptDecoderTest : public testing::TestWithParam<Kind> {
 protected:
  GptDecoderTest()
      : spec_(ParseModel(GetParam().gpt)),
        context_(spec_.gpt().context()),
        vocabulary_(spec_.gpt().vocabulary()),
        harness_(spec_, TokenInfo(context_, vocabulary_), /*max_samples=*/1,
                 CreateCpuDevice(GetParam().precision)),
        device_(MakeDevice(GetParam())),
        decoder_(*GptDecoder::Create(spec_, device_.get())) {
    // Initial weights are so small that all logits are nearly equal.
    const int64_t elements = decoder_->layout().arena_elements();
    std::vector<float> weights(elements, 0.0f);
    for (const Parameter& parameter : decoder_->layout().parameters()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        weights[parameter.offset + i] =
            0.3f * static_cast<float>(
                       std::sin(1.7 * (parameter.offset + i) + 0.3 * i * i));
      }
    }
    const size_t bytes = weights.size() * sizeof(float);
    harness_.device()->CopyFromHost(harness_.weights(), weights.data(), bytes);
    weights_ = *device_->Allocate(bytes);
    device_->CopyFromHost(weights_.get(), weights.data(), bytes);
    decoder_->SetWeights(static_cast<const float*>(weights_.get()));
  }

  std::vector<int32_t> Tokens(int64_t count) const {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<int32_t>((i * i * 7 + 3) % vocabulary_));
    }
    return tokens;
  }

  std::vector<float> Decode(const std::vector<int32_t>& tokens) {
    std::vector<float> logits(vocabulary_, std::nanf(""));
    EXPECT_EQ(decoder_->NextTokenLogits(tokens, absl::MakeSpan(logits)),
              absl::OkStatus());
    return logits;
  }

  // Expects the logits of the full forward for `tokens`.
  void ExpectLogits(const std::vector<float>& logits,
                    const std::vector<int32_t>& tokens) {
    std::vector<float> expected(vocabulary_);
    ASSERT_EQ(harness_.model()->NextTokenLogits(tokens, harness_.weights(),
                                                absl::MakeSpan(expected)),
              absl::OkStatus());
    for (int64_t i = 0; i < vocabulary_; ++i) {
      EXPECT_NEAR(logits[i], expected[i], GetParam().tolerance)
          << tokens.size() << " tokens, logit " << i;
    }
  }

  const ModelSpec spec_;
  const int64_t context_, vocabulary_;
  ModelHarness harness_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<GptDecoder> decoder_;
  Device::Memory weights_{nullptr, nullptr};
};

TEST_P(GptDecoderTest, TokenByTokenEqualsTheFullForward) {
  const std::vector<int32_t> all = Tokens(context_);
  for (int64_t count = 1; count <= context_; ++count) {
    const std::vector<int32_t> tokens(all.begin(), all.begin() + count);
    ExpectLogits(Decode(tokens), tokens);
  }
}

TEST_P(GptDecoderTest, PromptsAreReadInOneCall) {
  for (const int64_t first : {int64_t{3}, context_ - 2}) {
    const std::vector<int32_t> all = Tokens(context_);
    decoder_->SetWeights(static_cast<const float*>(weights_.get()));
    const std::vector<int32_t> prompt(all.begin(), all.begin() + first);
    ExpectLogits(Decode(prompt), prompt);
    ExpectLogits(Decode(all), all);
    ExpectLogits(Decode(all), all);        // Nothing new.
    ExpectLogits(Decode(prompt), prompt);  // Goes back.
  }
}

TEST_P(GptDecoderTest, SeesAtLeastThreeQuartersOfTheContext) {
  const std::vector<int32_t> all = Tokens(2 * context_ + 3);
  const int64_t kept = context_ - context_ / 4;
  int64_t seen = 0;
  for (int64_t count = 1; count <= 2 * context_ + 3; ++count) {
    seen = seen == context_ ? kept : seen + 1;
    const std::vector<float> logits =
        Decode({all.begin(), all.begin() + count});
    if (count <= context_) continue;
    ExpectLogits(logits, {all.begin() + count - seen, all.begin() + count});
  }
}

TEST_P(GptDecoderTest, RefusesWrongArguments) {
  std::vector<float> logits(vocabulary_);
  EXPECT_THAT(decoder_->NextTokenLogits({}, absl::MakeSpan(logits)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tokens is empty")));
  const std::vector<int32_t> wrong = {0, static_cast<int32_t>(vocabulary_)};
  EXPECT_THAT(decoder_->NextTokenLogits(wrong, absl::MakeSpan(logits)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not from 0 to ")));
  EXPECT_THAT(
      decoder_->NextTokenLogits({1}, absl::MakeSpan(logits).subspan(1)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wanted")));
}

constexpr char kSmall[] =
    "gpt { layers: 2 heads: 2 width: 16 context: 12 vocabulary: 37 }";
constexpr char kPadded[] =
    "gpt { layers: 2 heads: 4 width: 32 context: 9 vocabulary: 50 "
    "vocabulary_multiple: 64 }";
constexpr char kUntied[] =
    "gpt { layers: 1 heads: 1 width: 8 context: 3 vocabulary: 256 "
    "tied_head: false bias: false }";
// A prompt of more rows than are computed together.
constexpr char kLong[] =
    "gpt { layers: 1 heads: 2 width: 16 context: 150 vocabulary: 40 }";

INSTANTIATE_TEST_SUITE_P(
    All, GptDecoderTest,
    testing::Values(Kind{"Small", kSmall}, Kind{"Padded", kPadded},
                    Kind{"Untied", kUntied}, Kind{"Long", kLong},
                    Kind{"Bfloat16", kPadded, Precision::kBfloat16,
                         /*gpu=*/false, 0.1},
                    Kind{"Gpu", kPadded, Precision::kFloat32, /*gpu=*/true},
                    Kind{"GpuBfloat16", kSmall, Precision::kBfloat16,
                         /*gpu=*/true, 0.1}),
    [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace tributary
