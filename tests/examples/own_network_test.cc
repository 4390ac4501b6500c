// The example of docs/cpp.md: a program with a network and data of its own.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
  const CommandResult result = RunCommand(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
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

TEST(OwnNetworkTest, OtherCommandsKnowTheNetwork) {
  const CommandResult plan =
      RunCommand({kProgram, "plan", kJob, "--workers", "2", "--json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.standard_error;
  // Two hidden layers of 32 with a slope each, and three logits.
  const int64_t parameters = 2 * 32 + 32 + 32 + 32 * 32 + 32 + 32 + 3 * 32 + 3;
  EXPECT_EQ(ParseJson(plan.standard_output)["parameters"], parameters);
}

// Trains the example with the loss of its own, and returns the run's folder.
std::string TrainFocalLoss(const std::string& folder) {
  const std::string run = folder + "/focal";
  const CommandResult result =
      RunCommand({kProgram, "train", kJob, "--output", run, "--device", "cpu",
                  "--set", "epochs=20", "--set",
                  R"(model.external.config={"hidden": [32, 32], "focus": 2})"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  return run;
}

TEST(OwnNetworkTest, EvaluateAndPredictKnowTheNetworkAndItsLoss) {
  const std::string run = TrainFocalLoss(MakeTestFolder());
  const nlohmann::json summary =
      ParseJson(ReadWholeFile(run + "/summary.json"))["evaluation"];
  EXPECT_GT(summary["accuracy"], 0.8);
  const CommandResult evaluate =
      RunCommand({kProgram, "evaluate", run, "--json", "--device", "cpu"});
  EXPECT_EQ(evaluate.exit_code, 0) << evaluate.standard_error;
  const nlohmann::json evaluation = ParseJson(evaluate.standard_output);
  EXPECT_EQ(evaluation["loss"], summary["loss"]);
  EXPECT_EQ(evaluation["accuracy"], summary["accuracy"]);
  EXPECT_EQ(evaluation["samples"], 300);

  // What the loss reads, for each of the 300 samples.
  const CommandResult predict =
      RunCommand({kProgram, "predict", run, "--device", "cpu"});
  EXPECT_EQ(predict.exit_code, 0) << predict.standard_error;
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
      RunCommand({kProgram, "predict", run, "--data", "points.csv"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error,
              HasSubstr("--data: the samples of the run are those of the data "
                        "set \"spirals\" of a program"));
  const CommandResult classes =
      RunCommand({kProgram, "predict", run, "--device", "cpu"});
  EXPECT_EQ(classes.exit_code, 0) << classes.standard_error;
  EXPECT_THAT(classes.standard_output, StartsWith("class\n"));
  const CommandResult other =
      RunCommand({kTributary, "predict", run, "--device", "cpu"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.standard_error,
              HasSubstr("this program has no data set \"spirals\""));
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
      RunCommand({kProgram, "predict", run, "--data", folder + "/new.csv",
                  "--device", "cpu"});
  EXPECT_EQ(predict.exit_code, 0) << predict.standard_error;
  EXPECT_EQ(predict.standard_output, "class\n1\n0\n1\n");
  WriteWholeFile(folder + "/wide.csv", "7,0,1,2\n");
  const CommandResult wide =
      RunCommand({kProgram, "predict", run, "--data", folder + "/wide.csv"});
  EXPECT_EQ(wide.exit_code, 2);
  EXPECT_THAT(wide.standard_error, HasSubstr("wide.csv"));
}

TEST(OwnNetworkTest, AProgramOfItsOwnLoadsTheTrainedModel) {
  const std::string run = MakeTestFolder() + "/run";
  const CommandResult train =
      RunCommand({kProgram, "train", kJob, "--output", run, "--set",
                  "epochs=20", "--device", "cpu"});
  ASSERT_EQ(train.exit_code, 0) << train.standard_error;
  // A point of the first spiral: Spirals::Append with the point 900 of 1500.
  const CommandResult result = RunCommand(
      {"examples/cpp/own_network/classify", run, "-0.485", "-0.353"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  const nlohmann::json summary =
      ParseJson(ReadWholeFile(run + "/summary.json"));
  EXPECT_THAT(result.standard_output,
              StartsWith(absl::StrFormat(
                  "loss %.4f, accuracy %.4f\nclass 0: 0.",
                  summary["evaluation"]["loss"].get<double>(),
                  summary["evaluation"]["accuracy"].get<double>())));
}

TEST(OwnNetworkTest, ItsGradientsAreRight) {
  const CommandResult result =
      RunCommand({"examples/cpp/own_network/check_gradients"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
}

TEST(OwnNetworkTest, ALossOfItsOwnNeedsACpu) {
  const CommandResult result = RunCommand(
      {kProgram, "plan", kJob, "--set", "precision=BFLOAT16", "--set",
       R"(model.external.config={"hidden": [], "focus": 2})"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.standard_error,
            "error: loss: this loss computes only on CPUs and in FLOAT32; "
            "start the job with --device cpu, and leave out precision\n");
}

// Runs `plan`, which builds the model, and expects it to refuse the job.
void ExpectRefused(const std::string& program, const std::string& change,
                   const std::string& message) {
  const CommandResult result =
      RunCommand({program, "plan", kJob, "--set", change});
  EXPECT_EQ(result.exit_code, 2);
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

TEST(OwnNetworkTest, AProgramWithoutTheNetworkSaysSo) {
  ExpectRefused(
      kTributary, "seed=1",
      "data.external: this program has no data set \"spirals\"; start "
      "the job with the program that registers it (tributary::Main)");
  const CommandResult train = RunCommand({kTributary, "train", kJob, "--output",
                                          MakeTestFolder() + "/run", "--set",
                                          "data.external={train_samples: 64}"});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.standard_error,
              HasSubstr("model.external: this program has no model "
                        "\"slope_network\"; start the job with the program "
                        "that registers it (tributary::Main), or with "
                        "--worker-command"));
}

}  // namespace
}  // namespace tributary
