#include "worker/models/initial_weights.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/tensor_io/safetensors_file.h"
#include "common/tensor_io/tensor_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGpt[] =
    "gpt { layers: 2 heads: 2 width: 8 context: 4 "
    "vocabulary: 11 }";

// The tensors of a model, which a test may change before it writes them.
class Tensors {
 public:
  // Copies the parameters in `weights`.
  Tensors(const ArenaLayout& layout, const float* weights) {
    for (const Parameter& parameter : layout.parameters()) {
      Add(parameter.name, parameter.shape,
          {weights + parameter.offset,
           weights + parameter.offset + parameter.size});
    }
  }

  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  void Add(const std::string& name, std::vector<int64_t> shape,
           std::vector<float> values) {
    tensors_.push_back({name, std::move(shape), std::move(values)});
  }
  Tensor& Find(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const Tensor& t) { return t.name == name; });
  }
  void Remove(const std::string& name) {
    tensors_.erase(tensors_.begin() + (&Find(name) - tensors_.data()));
  }
  std::vector<Tensor>& all() { return tensors_; }

  // Writes a safetensors file and returns its path.
  std::string Write() const {
    const std::string path = testing::TempDir() + "/weights.safetensors";
    std::vector<NamedTensor> named;
    for (const Tensor& tensor : tensors_) {
      named.push_back({tensor.name, tensor.shape, tensor.values.data()});
    }
    EXPECT_EQ(WriteSafetensors(path, named, {}), absl::OkStatus());
    return path;
  }

 private:
  std::vector<Tensor> tensors_;
};

class InitialWeightsTest : public ::testing::Test {
 protected:
  InitialWeightsTest()
      : harness_(ParseModel(kGpt), TokenInfo(4, 11), /*max_samples=*/2),
        tensors_(harness_.layout(), harness_.weights()) {}

  // Loads the tensors into an arena whose elements are all 7.
  absl::Status Load(bool strict = true) {
    InitialWeightsSpec spec;
    spec.set_path(tensors_.Write());
    spec.set_strict(strict);
    loaded_.assign(harness_.layout().arena_elements(), 7);
    return LoadInitialWeights(spec, harness_.layout(), loaded_.data());
  }

  // Loads the tensors. Checks that all parameters except `name` have their
  // values, and that those of `name` are all 7.
  void ExpectLoads(bool strict = true, const std::string& name = "") {
    ASSERT_EQ(Load(strict), absl::OkStatus());
    for (const Parameter& parameter : harness_.layout().parameters()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        ASSERT_EQ(loaded_[parameter.offset + i],
                  parameter.name == name
                      ? 7
                      : harness_.weights()[parameter.offset + i])
            << parameter.name << " " << i;
      }
    }
  }

  // Changes the tensors to those of GPT-2 as Hugging Face stores them.
  void MakeGpt2() {
    for (Tensors::Tensor& tensor : tensors_.all()) {
      tensor.name = std::string(absl::StripPrefix(tensor.name, "transformer."));
      const bool conv1d = absl::StrContains(tensor.name, ".c_") &&
                          absl::EndsWith(tensor.name, ".weight");
      if (!conv1d) continue;
      const std::vector<float> from = tensor.values;
      const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          tensor.values[column * rows + row] = from[row * columns + column];
        }
      }
      std::swap(tensor.shape[0], tensor.shape[1]);
    }
    for (const char* layer : {"h.0.attn.", "h.1.attn."}) {
      tensors_.Add(absl::StrCat(layer, "bias"), {1, 1, 4, 4},
                   std::vector<float>(16, 1));
      tensors_.Add(absl::StrCat(layer, "masked_bias"), {}, {-1e4f});
    }
  }

  ModelHarness harness_;
  Tensors tensors_;
  std::vector<float> loaded_;
};

TEST_F(InitialWeightsTest, ReadsTheNamesOfTheModel) { ExpectLoads(); }

TEST_F(InitialWeightsTest, ReadsGpt2AsHuggingFaceStoresIt) {
  MakeGpt2();
  ExpectLoads();
}

// make_gpt2_golden.py writes the files.
TEST(Gpt2Test, HasTheLogitsOfTransformers) {
  const std::string folder = "tests/worker/models/golden/gpt2";
  ModelHarness harness(
      ParseModel("gpt { layers: 2 heads: 2 width: 16 context: 8 "
                 "vocabulary: 32 }"),
      TokenInfo(8, 32), /*max_samples=*/1);
  InitialWeightsSpec spec;
  spec.set_path(folder);
  ASSERT_EQ(LoadInitialWeights(spec, harness.layout(), harness.weights()),
            absl::OkStatus());
  const auto golden = TensorFiles::Open(folder + "/logits.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status();
  std::vector<float> expected(8 * 32), tokens(8), logits(32);
  ASSERT_TRUE(golden->ReadFloats("logits", absl::MakeSpan(expected)).ok());
  ASSERT_TRUE(golden->ReadFloats("tokens", absl::MakeSpan(tokens)).ok());
  const std::vector<int32_t> ids(tokens.begin(), tokens.end());
  for (size_t position = 0; position < ids.size(); ++position) {
    ASSERT_EQ(harness.model()->NextTokenLogits(
                  absl::MakeSpan(ids.data(), position + 1), harness.weights(),
                  absl::MakeSpan(logits)),
              absl::OkStatus());
    for (int token = 0; token < 32; ++token) {
      EXPECT_NEAR(logits[token], expected[position * 32 + token], 1e-5)
          << "position " << position << ", token " << token;
    }
  }
}

TEST_F(InitialWeightsTest, SkipsAHeadThatIsTied) {
  const Tensors::Tensor& embedding = tensors_.Find("transformer.wte.weight");
  tensors_.Add("lm_head.weight", embedding.shape, embedding.values);
  ExpectLoads();
}

TEST_F(InitialWeightsTest, NamesParametersWithoutTensor) {
  tensors_.Remove("transformer.h.0.ln_1.bias");
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("weights.safetensors has no tensor for "
                                       "transformer.h.0.ln_1.bias"),
                             HasSubstr("strict to false"))));
  ExpectLoads(/*strict=*/false, "transformer.h.0.ln_1.bias");
}

TEST_F(InitialWeightsTest, NamesTensorsWithoutParameter) {
  tensors_.Add("score.weight", {1}, {0});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("score.weight")));
  ExpectLoads(/*strict=*/false);
}

TEST_F(InitialWeightsTest, ManyNamesAreCounted) {
  for (int i = 10; i < 24; ++i) tensors_.Add(absl::StrCat("x", i), {1}, {0});
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("x10, x11, x12, x13, x14, x15, x16, "
                                         "x17, x18, x19 and 4 more of")));
}

TEST_F(InitialWeightsTest, NamesATensorOfAWrongShape) {
  MakeGpt2();
  Tensors::Tensor& tensor = tensors_.Find("h.1.mlp.c_fc.weight");
  tensor.shape = {8, 16};
  tensor.values.resize(8 * 16);
  for (const bool strict : {true, false}) {
    EXPECT_THAT(Load(strict),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("has shape [8, 16], expected [8, 32] for "
                                   "parameter "
                                   "transformer.h.1.mlp.c_fc.weight")));
  }
}

TEST_F(InitialWeightsTest, NamesAllTensorsOfAWrongShape) {
  for (Tensors::Tensor& tensor : tensors_.all()) {
    if (!absl::EndsWith(tensor.name, ".ln_1.bias")) continue;
    tensor.shape[0] += 1;
    tensor.values.push_back(0);
  }
  EXPECT_THAT(
      Load(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("weights.safetensors: tensor transformer.h.0."
                               "ln_1.bias has shape [9], expected [8] for "
                               "parameter transformer.h.0.ln_1.bias; tensor "
                               "transformer.h.1.ln_1.bias has shape [9]"),
                     HasSubstr("; change the sizes"))));
}

TEST_F(InitialWeightsTest, CountsManyTensorsOfAWrongShape) {
  int wrong = 0;
  for (Tensors::Tensor& tensor : tensors_.all()) {
    if (!absl::EndsWith(tensor.name, ".bias")) continue;
    tensor.shape[0] += 1;
    tensor.values.push_back(0);
    ++wrong;
  }
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat(" and ", wrong - 10,
                                              " more; change the sizes"))));
}

TEST_F(InitialWeightsTest, RefusesFilesOfAnotherModel) {
  tensors_.all().clear();
  tensors_.Add("conv1.weight", {1}, {0});
  EXPECT_THAT(
      Load(/*strict=*/false),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("transformer.wte.weight, the first tensor conv1.weight")));
}

TEST_F(InitialWeightsTest, PatternsSelectParameters) {
  const ParameterTable& table = harness_.model()->table();
  const auto names = [&](const std::vector<std::string>& patterns) {
    std::vector<std::string> found;
    const auto matches = MatchParameters("f", patterns, table);
    for (const int i : matches.value_or(std::vector<int>())) {
      found.push_back(table.parameter(i).name());
    }
    return found;
  };
  EXPECT_THAT(names({"*.ln_f.*", "transformer.wpe.weight"}),
              ElementsAre("transformer.wpe.weight", "transformer.ln_f.weight",
                          "transformer.ln_f.bias"));
  EXPECT_THAT(names({}), ElementsAre());
  EXPECT_THAT(MatchParameters("model.x", {"*", "wte.*"}, table).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.x: 'wte.*' ")));
}

// Returns all gradients of a step, by the names of the parameters.
std::vector<std::vector<float>> GradientsOf(ModelHarness* harness) {
  harness->Step(MakeBatch(TokenInfo(4, 11), /*samples=*/2, /*seed=*/3));
  const std::vector<float> arena = harness->Gradients();
  std::vector<std::vector<float>> gradients;
  for (const Parameter& parameter : harness->layout().parameters()) {
    gradients.emplace_back(arena.begin() + parameter.offset,
                           arena.begin() + parameter.offset + parameter.size);
  }
  return gradients;
}

TEST_F(InitialWeightsTest, FrozenParametersHaveNoGradientAndNoWeightDecay) {
  ModelSpec spec = ParseModel(kGpt);
  spec.mutable_initial_weights()->set_path("unread");
  spec.mutable_initial_weights()->add_freeze("*.wte.weight");
  spec.mutable_initial_weights()->add_freeze("*.h.0.*");
  ModelHarness frozen(spec, TokenInfo(4, 11), /*max_samples=*/2);
  const auto expected = GradientsOf(&harness_);
  const auto gradients = GradientsOf(&frozen);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Parameter& parameter = frozen.layout().parameters()[i];
    SCOPED_TRACE(parameter.name);
    const bool is_frozen = absl::StrContains(parameter.name, ".wte.") ||
                           absl::StrContains(parameter.name, ".h.0.");
    if (is_frozen) {
      EXPECT_EQ(gradients[i], std::vector<float>(parameter.size, 0));
      EXPECT_NE(expected[i], gradients[i]);
      EXPECT_EQ(parameter.group, NO_DECAY);
    } else {
      EXPECT_EQ(gradients[i], expected[i]);
      EXPECT_EQ(parameter.group, harness_.layout().parameters()[i].group);
    }
  }
}

}  // namespace
}  // namespace tributary
