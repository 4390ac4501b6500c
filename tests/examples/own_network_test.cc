// The example of docs/cpp.md: a program with a network and data of its own.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kProgram[] = "examples/cpp/own_network/own_network";
constexpr char kJob[] = "examples/cpp/own_network/spirals.textproto";

// Trains the example for a few epochs and returns its summary.
nlohmann::json Train(const std::vector<std::string>& flags) {
  const std::string run = MakeTestFolder() + "/run";
  std::vector<std::string> arguments = {kProgram,    "train",    kJob,
                                        "--output",  run,        "--set",
                                        "epochs=20", "--device", "cpu"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  RunExpecting(0, arguments);
  return ParseJson(ReadWholeFile(run + "/summary.json"));
}

TEST(OwnNetworkTest, OneAndTwoWorkersLearnTheSameWeights) {
  const nlohmann::json one = Train({"--workers", "1"});
  const nlohmann::json two = Train({"--workers", "2", "--servers", "2"});
  EXPECT_EQ(one["weights_sha256"], two["weights_sha256"]);
  EXPECT_EQ(one["name"], "slope_network");
  EXPECT_EQ(one["unit"], "points");
  // The loss of guessing one of three classes is 1.1.
  EXPECT_LT(one["evaluation"]["loss"], 0.5);
  EXPECT_GT(one["evaluation"]["accuracy"], 0.8);
}

// Two replicas of three stages, cut before and after a layer of the program,
// and fewer workers than stages; the loss of the program ends the last stage.
TEST(OwnNetworkTest, StagesLearnTheWeightsOfTheWholeNetwork) {
  const std::string focal =
      R"(model.external.config={"hidden": [32, 32], "focus": 2})";
  const nlohmann::json whole = Train({"--set", focal});
  const nlohmann::json named = Train(
      {"--set", focal, "--workers", "6", "--set",
       R"(parallel.pipeline={ stages: 3 split: ["hidden.1", "output"] })"});
  EXPECT_EQ(named["weights_sha256"], whole["weights_sha256"]);
  EXPECT_EQ(named["evaluation"], whole["evaluation"]);
  const nlohmann::json balanced =
      Train({"--set", focal, "--workers", "2", "--set",
             "parallel={ recompute: true pipeline { stages: 4 } }"});
  EXPECT_EQ(balanced["weights_sha256"], whole["weights_sha256"]);
}

TEST(OwnNetworkTest, OtherCommandsKnowTheNetwork) {
  const CommandResult plan =
      RunExpecting(0, {kProgram, "plan", kJob, "--workers", "2", "--json"});
  // Two hidden layers of 32 with a slope each, and three logits.
  const int64_t parameters = 2 * 32 + 32 + 32 + 32 * 32 + 32 + 32 + 3 * 32 + 3;
  EXPECT_EQ(ParseJson(plan.standard_output)["parameters"], parameters);
}

// Trains the example with the loss of its own, and returns the run's folder.
std::string TrainFocalLoss(const std::string& folder) {
  const std::string run = folder + "/focal";
  RunExpecting(
      0, {kProgram, "train", kJob, "--output", run, "--device", "cpu", "--set",
          "epochs=20", "--set",
          R"(model.external.config={"hidden": [32, 32], "focus": 2})"});
  return run;
}

TEST(OwnNetworkTest, EvaluateAndPredictKnowTheNetworkAndItsLoss) {
  const std::string run = TrainFocalLoss(MakeTestFolder());
  const nlohmann::json summary =
      ParseJson(ReadWholeFile(run + "/summary.json"))["evaluation"];
  EXPECT_GT(summary["accuracy"], 0.8);
  const CommandResult evaluate =
      RunExpecting(0, {kProgram, "evaluate", run, "--json", "--device", "cpu"});
  const nlohmann::json evaluation = ParseJson(evaluate.standard_output);
  EXPECT_EQ(evaluation["loss"], summary["loss"]);
  EXPECT_EQ(evaluation["accuracy"], summary["accuracy"]);
  EXPECT_EQ(evaluation["samples"], 300);

  // What the loss reads, for each of the 300 samples.
  const CommandResult predict =
      RunExpecting(0, {kProgram, "predict", run, "--device", "cpu"});
  EXPECT_THAT(predict.standard_output, StartsWith("value_0,value_1,value_2\n"));
  const std::string& table = predict.standard_output;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 300);
  const CommandResult others =
      RunCommand({kProgram, "predict", run, "--device", "cpu", "--set",
                  R"(data.external.config={"samples": 50})"});
  EXPECT_EQ(std::count(others.standard_output.begin(),
                       others.standard_output.end(), '\n'),
            1 + 10);
}

TEST(OwnNetworkTest, PredictSaysWhatItNeeds) {
  const std::string run = MakeTestFolder() + "/run";
  const CommandResult train =
      RunCommand({kProgram, "train", kJob, "--output", run, "--set", "steps=3",
                  "--device", "cpu"});
  ASSERT_EQ(train.exit_code, 0) << train.standard_error;
  const CommandResult result =
      RunExpecting(2, {kProgram, "predict", run, "--data", "points.csv"});
  EXPECT_THAT(result.standard_error, HasSubstr("data set \"spirals\""));
  const CommandResult classes =
      RunExpecting(0, {kProgram, "predict", run, "--device", "cpu"});
  EXPECT_THAT(classes.standard_output, StartsWith("class\n"));
  const CommandResult other =
      RunExpecting(2, {kTributary, "predict", run, "--device", "cpu"});
  EXPECT_THAT(other.standard_error, HasSubstr("data set \"spirals\""));
}

// Points right and left of the line x = y.
TEST(OwnNetworkTest, PredictsTheRowsOfAFile) {
  const std::string folder = MakeTestFolder();
  std::string rows;
  for (int i = 0; i < 64; ++i) {
    const int x = i % 8, y = i / 8;
    absl::StrAppend(&rows, x, ",", y, ".5,", x > y ? 1 : 0, "\n");
  }
  WriteWholeFile(folder + "/train.csv", rows);
  WriteWholeFile(folder + "/new.csv", "7,0\n0,7\n6,1\n");
  WriteWholeFile(folder + "/job.textproto",
                 absl::StrCat("model { external { name: \"slope_network\" } }\n"
                              "data { csv { train: \"",
                              folder, "/train.csv\" test: \"", folder,
                              "/train.csv\" } }\nbatch { global: 16 }\n"
                              "optimizer { adamw { learning_rate: 0.01 } }\n"
                              "epochs: 50\n"));
  const std::string run = folder + "/run";
  const CommandResult train =
      RunCommand({kProgram, "train", folder + "/job.textproto", "--output", run,
                  "--device", "cpu"});
  ASSERT_EQ(train.exit_code, 0) << train.standard_error;
  const CommandResult predict =
      RunExpecting(0, {kProgram, "predict", run, "--data", folder + "/new.csv",
                       "--device", "cpu"});
  EXPECT_EQ(predict.standard_output, "class\n1\n0\n1\n");
  WriteWholeFile(folder + "/wide.csv", "7,0,1,2\n");
  const CommandResult wide = RunExpecting(
      2, {kProgram, "predict", run, "--data", folder + "/wide.csv"});
  EXPECT_THAT(wide.standard_error, HasSubstr("wide.csv"));
}

TEST(OwnNetworkTest, AProgramOfItsOwnLoadsTheTrainedModel) {
  const std::string run = MakeTestFolder() + "/run";
  const CommandResult train =
      RunCommand({kProgram, "train", kJob, "--output", run, "--set",
                  "epochs=20", "--device", "cpu"});
  ASSERT_EQ(train.exit_code, 0) << train.standard_error;
  // A point of the first spiral: Spirals::Append with the point 900 of 1500.
  const CommandResult result = RunExpecting(
      0, {"examples/cpp/own_network/classify", run, "-0.485", "-0.353"});
  const nlohmann::json summary =
      ParseJson(ReadWholeFile(run + "/summary.json"));
  EXPECT_THAT(result.standard_output,
              StartsWith(absl::StrFormat(
                  "loss %.4f, accuracy %.4f\nclass 0: 0.",
                  summary["evaluation"]["loss"].get<double>(),
                  summary["evaluation"]["accuracy"].get<double>())));
}

TEST(OwnNetworkTest, ItsGradientsAreRight) {
  RunExpecting(0, {"examples/cpp/own_network/check_gradients"});
}

TEST(OwnNetworkTest, ALossOfItsOwnNeedsACpu) {
  const CommandResult result = RunExpecting(
      2, {kProgram, "plan", kJob, "--set", "precision=BFLOAT16", "--set",
          R"(model.external.config={"hidden": [], "focus": 2})"});
  EXPECT_EQ(result.standard_error,
            "error: loss: this loss computes only on CPUs and in FLOAT32; "
            "start the job with --device cpu, and leave out precision\n");
}

// Runs `plan`, which builds the model, and expects it to refuse the job.
void ExpectRefused(const std::string& program, const std::string& change,
                   const std::string& message) {
  const CommandResult result =
      RunExpecting(2, {program, "plan", kJob, "--set", change});
  EXPECT_EQ(result.standard_error, absl::StrCat("error: ", message, "\n"));
}

TEST(OwnNetworkTest, MistakesInTheJobAreNamed) {
  ExpectRefused(kProgram, R"(model.external.config={"hiden": [8]})",
                "model.external.config: there is no member hiden; did you mean "
                "hidden?");
  ExpectRefused(kProgram, R"(data.external.config={"arms": 1})",
                "data.external.config: arms is 1, expected an integer from 2 "
                "to 100");
  ExpectRefused(kProgram, "data.external.train_samples=1000",
                "data.external.train_samples: 1000, but the data set has 1200; "
                "correct the job, or leave the field out");
  ExpectRefused(kProgram, "model.external.name=slop_network",
                "model.external: this program has no model \"slop_network\"; "
                "did you mean slope_network?");
  ExpectRefused(kProgram, "precision=BFLOAT16",
                "hidden.0.activation: this layer computes only on CPUs and in "
                "FLOAT32; start the job with --device cpu, and leave out "
                "precision");
}

// The program knows its layers, and the launcher of other programs does not:
// then the workers refuse the job.
TEST(OwnNetworkTest, StagesThatItDoesNotHaveAreNamed) {
  const std::string split = "parallel.pipeline={ stages: 2 split: 'hidden.7' }";
  ExpectRefused(kProgram, split,
                "parallel.pipeline.split: the model has no layer "
                "hidden.7; did you mean hidden.1?");
  const std::string folder = MakeTestFolder();
  const CommandResult own =
      RunExpecting(2, {kProgram, "train", kJob, "--output", folder + "/own",
                       "--device", "cpu", "--set", split});
  EXPECT_THAT(own.standard_error,
              StartsWith("error: parallel.pipeline.split: "));
  EXPECT_FALSE(std::filesystem::exists(folder + "/own"));

  const CommandResult other =
      RunExpecting(2, {kTributary, "train", kJob, "--output", folder + "/other",
                       "--workers", "2", "--worker-command",
                       absl::StrCat(kProgram, " worker"), "--set", split});
  const std::vector<std::string> lines =
      absl::StrSplit(other.standard_error, '\n', absl::SkipEmpty());
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), AllOf(StartsWith("error: "),
                                  HasSubstr("parallel.pipeline.split: ")));
}

TEST(OwnNetworkTest, AProgramWithoutTheNetworkSaysSo) {
  ExpectRefused(
      kTributary, "seed=1",
      "data.external: this program has no data set \"spirals\"; start "
      "the job with the program that registers it (tributary::Main)");
  const CommandResult train = RunExpecting(
      2, {kTributary, "train", kJob, "--output", MakeTestFolder() + "/run",
          "--set", "data.external={train_samples: 64}"});
  EXPECT_THAT(
      train.standard_error,
      HasSubstr("model.external: this program has no model \"slope_network\""));
}

}  // namespace
}  // namespace tributary
