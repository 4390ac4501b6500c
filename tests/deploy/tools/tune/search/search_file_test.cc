#include "deploy/tools/tune/search/search_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kParameters[] = R"(
  parameter { path: "optimizer.adamw.learning_rate"
              number { low: 1e-4 high: 1e-1 log: true } }
  parameter { path: "model.mlp.hidden"
              choice { value: "32" value: "64,64" } }
  parameter { path: "model.mlp.dropout" number { low: 0 high: 0.5 step: 0.1 }
              when { path: "model.mlp.hidden" value: "64,64" } }
  parameter { path: "batch.global" integer { low: 16 high: 128 step: 16 } }
)";
constexpr char kRest[] = R"(
  objective { metric: "evaluation.loss" goal: MINIMIZE }
  budget { trials: 27 }
)";

std::string Whole() { return absl::StrCat(kParameters, kRest); }

absl::Status Validate(const std::string& text) {
  const absl::StatusOr<SearchSpec> search = ParseSearch(text, "search");
  EXPECT_TRUE(search.ok()) << search.status();
  return search.ok() ? ValidateSearch(*search) : search.status();
}

TEST(SearchFileTest, AcceptsEachKindOfParameter) {
  EXPECT_EQ(Validate(Whole()), absl::OkStatus());
}

TEST(SearchFileTest, PrintsWhatItParses) {
  const SearchSpec search = *ParseSearch(Whole(), "search");
  EXPECT_EQ(PrintSearch(*ParseSearch(PrintSearch(search), "printed")),
            PrintSearch(search));
}

TEST(SearchFileTest, SyntaxErrorsHaveAPosition) {
  EXPECT_THAT(ParseSearch("\nparameters {}", "s.textproto"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("s.textproto:2:")));
}

TEST(SearchFileTest, AFileThatIsMissingIsNamed) {
  EXPECT_THAT(LoadSearch("/nowhere/s.textproto"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("/nowhere/s.textproto")));
}

struct Mistake {
  const char* from;  // Replaced in the valid search.
  const char* to;
  const char* field;  // What the message names.
};

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsReportedWithItsField) {
  const Mistake& mistake = GetParam();
  const std::string text =
      absl::StrReplaceAll(Whole(), {{mistake.from, mistake.to}});
  ASSERT_NE(text, Whole());
  EXPECT_THAT(Validate(text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(mistake.field), Not(HasSubstr("\n")))));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    testing::Values(
        Mistake{kParameters, "", "parameter"},
        Mistake{"path: \"batch.global\"", "", "parameter[3].path"},
        Mistake{"\"batch.global\"", "\"steps\"", "parameter[3].path"},
        Mistake{"\"batch.global\"", "\"batch.global=3\"", "parameter[3].path"},
        Mistake{"\"batch.global\"", "\"model.mlp.hidden\"",
                "parameter[3].path"},
        Mistake{"integer { low: 16 high: 128 step: 16 }", "", "batch.global"},
        Mistake{"low: 16 high: 128", "high: 128", "integer.low"},
        Mistake{"low: 16 high: 128", "low: 16", "integer.high"},
        Mistake{"low: 16 high: 128", "low: 160 high: 128", "integer"},
        Mistake{"step: 16 }", "step: 0 }", "integer.step"},
        Mistake{"step: 16 }", "step: 2 log: true }", "integer"},
        Mistake{"low: 1e-4", "low: 0", "number"},
        Mistake{"low: 1e-4", "low: 1", "number"},
        Mistake{"high: 1e-1", "high: inf", "number"},
        Mistake{"step: 0.1", "step: -1", "number.step"},
        Mistake{"step: 0.1", "step: 1e-9", "number.step"},
        Mistake{"log: true", "log: true step: 0.1", "number"},
        Mistake{"value: \"32\"", "value: \"64,64\"", "choice.value"},
        Mistake{"when { path: \"model.mlp.hidden\"",
                "when { path: \"batch.global\"", "when.path"},
        Mistake{"when { path: \"model.mlp.hidden\"",
                "when { path: \"optimizer.adamw.learning_rate\"", "when.path"},
        Mistake{"when { path: \"model.mlp.hidden\" value: \"64,64\"",
                "when { path: \"model.mlp.hidden\" value: \"7\"", "when.value"},
        Mistake{"objective { metric: \"evaluation.loss\" goal: MINIMIZE }", "",
                "objective"},
        Mistake{"metric: \"evaluation.loss\"", "", "objective[0].metric"},
        Mistake{"goal: MINIMIZE", "", "objective[0].goal"},
        Mistake{"budget { trials: 27 }", "", "budget"},
        Mistake{"trials: 27", "trials: 0", "budget.trials"},
        Mistake{"trials: 27", "steps: 0", "budget.steps"},
        Mistake{"trials: 27", "seconds: -1", "budget.seconds"},
        Mistake{"budget", "lookahead: 0 budget", "lookahead"},
        Mistake{"budget", "parallel: 0 budget", "parallel"},
        Mistake{"budget", "constraint { max: 1 } budget",
                "constraint[0].metric"},
        Mistake{"budget", "constraint { metric: \"a\" } budget",
                "constraint[0]"},
        Mistake{"budget", "constraint { metric: \"a\" min: 2 max: 1 } budget",
                "constraint[0]"},
        Mistake{"budget",
                "constraint { metric: \"a\" min: 2 } "
                "constraint { metric: \"a\" max: 3 } budget",
                "constraint[1].metric"},
        Mistake{"budget", "scheduler { successive_halving { eta: 1 } } budget",
                "successive_halving.eta"},
        Mistake{"budget", "scheduler { hyperband { rungs: 1 } } budget",
                "hyperband.rungs"},
        Mistake{"budget", "scheduler { median_stopping {} } budget",
                "median_stopping.every_steps"},
        Mistake{"budget",
                "objective { metric: \"seconds\" goal: MINIMIZE } "
                "scheduler { hyperband {} } budget",
                "scheduler"},
        Mistake{"budget",
                "scheduler { population_based { every_steps: 3 } } budget",
                "budget"},
        Mistake{"budget", "final { best: 0 } budget", "final.best"},
        Mistake{"budget", "final { seeds: 1 } budget", "final.seeds"},
        Mistake{"budget",
                "objective { metric: \"seconds\" goal: MINIMIZE } final {} "
                "budget",
                "final"},
        Mistake{"\"batch.global\" integer",
                "\"seed\" integer { low: 1 high: 9 } } final {} parameter { "
                "path: \"batch.global\" integer",
                "final"},
        Mistake{"budget { trials: 27 }",
                "final {} scheduler { population_based { every_steps: 3 } }",
                "final"},
        Mistake{"budget { trials: 27 }", "scheduler { population_based {} }",
                "population_based.every_steps"},
        Mistake{"budget { trials: 27 }",
                "scheduler { population_based { every_steps: 3 population: 1 "
                "} }",
                "population_based.population"},
        Mistake{"budget { trials: 27 }",
                "scheduler { population_based { every_steps: 3 quantile: 0.6 "
                "} }",
                "population_based.quantile"},
        Mistake{"budget { trials: 27 }",
                "scheduler { population_based { every_steps: 3 factor: 1 } }",
                "population_based.factor"},
        Mistake{"budget { trials: 27 }",
                "scheduler { population_based { every_steps: 3 "
                "resample_probability: 2 } }",
                "population_based.resample_probability"},
        Mistake{"budget { trials: 27 }",
                "sampler { grid {} } scheduler { population_based { "
                "every_steps: 3 } }",
                "sampler"}));

TEST(SearchFileTest, SobolHasALimitOfParameters) {
  std::string text = absl::StrCat("sampler { sobol {} }", kRest);
  for (int i = 0; i < 22; ++i) {
    absl::StrAppend(&text, "parameter { path: \"p", i,
                    "\" number { low: 0 high: 1 } }");
  }
  EXPECT_THAT(Validate(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("sampler.sobol")));
}

TEST(SearchFileTest, APopulationNeedsNoBudget) {
  EXPECT_EQ(Validate(absl::StrReplaceAll(
                Whole(), {{"budget { trials: 27 }",
                           "scheduler { population_based { every_steps: 3 } "
                           "}"}})),
            absl::OkStatus());
}

TEST(SearchFileTest, AGridNeedsNoBudget) {
  EXPECT_EQ(Validate(absl::StrReplaceAll(
                Whole(), {{"budget { trials: 27 }", "sampler { grid {} }"}})),
            absl::OkStatus());
}

}  // namespace
}  // namespace tributary
