#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "common/base/json.h"
#include "common/os/file.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_diff.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

Outcome RunCheckpoint(const std::vector<std::string>& arguments) {
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.exit_code = RunCheckpointCommand(arguments, [](const std::string&) {
    return absl::optional<std::string>();
  });
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.errors = testing::internal::GetCapturedStderr();
  return outcome;
}

CheckpointFacts FactsOf(int64_t step, int servers = 2) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {5, 7}, {40}}, 32);
  facts.state = {"momentum_buffer"};
  facts.servers = servers;
  facts.step = step;
  return facts;
}

class CheckpointCommandTest : public testing::Test {
 protected:
  void Save(const CheckpointFacts& facts) {
    ASSERT_EQ(
        SaveCheckpoint(facts, CheckpointsFolder(run_), FileSystem::Posix()),
        absl::OkStatus());
  }
  // One parameter of ones, in a folder of its own.
  static std::string WriteOnes(CheckpointFacts facts) {
    const std::vector<float> values(4, 1.0f);
    facts.table = MakeTable({{4}}, 32);
    facts.servers = 1;
    const std::string folder = MakeFolderForTest();
    EXPECT_EQ(WriteCheckpointFiles(facts, folder, values), absl::OkStatus());
    return folder;
  }
  std::string PathOf(int64_t step) const {
    return absl::StrFormat("%s/checkpoints/step-%08d", run_, step);
  }
  // Changes a bit of the last byte.
  static void Damage(const std::string& path) {
    std::string bytes = *ReadFile(path, 1 << 20);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  static void ExpectRefused(const std::vector<std::string>& arguments,
                            const std::string& name) {
    const Outcome outcome = RunCheckpoint(arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(outcome.errors, HasSubstr(name));
  }

  const std::string run_ = MakeFolderForTest();
};

TEST_F(CheckpointCommandTest, ListsTheCheckpointsOfARun) {
  Save(FactsOf(10));
  Save(FactsOf(20, /*servers=*/1));
  ASSERT_EQ(std::remove((PathOf(20) + "/manifest.json").c_str()), 0);
  for (const std::string& path : {run_, run_ + "/checkpoints"}) {
    const Outcome outcome = RunCheckpoint({"ls", path});
    EXPECT_EQ(outcome.exit_code, kExitDone) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    EXPECT_THAT(outcome.output, ContainsRegex(" +10  20[0-9: -]+ +0\\.0 +2 "));
    EXPECT_THAT(outcome.output, HasSubstr("damaged: " + PathOf(20) +
                                          "/manifest.json: is missing"));
  }
}

TEST_F(CheckpointCommandTest, NamesTheModelOfTheRun) {
  Save(FactsOf(10));
  std::ofstream(run_ + "/job.textproto")
      << "model { external { name: 'factorization' } }";
  EXPECT_THAT(RunCheckpoint({"ls", run_}).output,
              testing::StartsWith("model: external factorization\n"));
  EXPECT_EQ(ParseJson(RunCheckpoint({"ls", run_, "--json"}).output)["model"],
            "external factorization");
}

TEST_F(CheckpointCommandTest, ListsForScripts) {
  Save(FactsOf(10));
  Save(FactsOf(20));
  ASSERT_EQ(
      std::remove((PathOf(20) + "/model-00001-of-00002.safetensors").c_str()),
      0);
  const Outcome outcome = RunCheckpoint({"ls", run_, "--json"});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  const auto json = ParseJson(outcome.output);
  ASSERT_EQ(json["checkpoints"].size(), 2) << outcome.output;
  const auto& first = json["checkpoints"][0];
  EXPECT_EQ(first["path"], PathOf(10));
  EXPECT_EQ(first["step"], 10);
  EXPECT_EQ(first["servers"], 2);
  EXPECT_EQ(first["whole"], true);
  EXPECT_GT(first["bytes"], 2 * 4 * 78);
  EXPECT_THAT(first["time"].get<std::string>(),
              ContainsRegex("^20..-..-..T..:..:..(Z|.00:00)$"));
  const auto& second = json["checkpoints"][1];
  EXPECT_EQ(second["whole"], false);
  EXPECT_THAT(second["damage"].get<std::string>(),
              HasSubstr("model-00001-of-00002.safetensors: is missing"));
}

TEST_F(CheckpointCommandTest, VerifiesAll) {
  Save(FactsOf(10));
  Save(FactsOf(20));
  Outcome outcome = RunCheckpoint({"verify", run_});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_EQ(outcome.output, PathOf(10) + ": whole, 0.0 MB\n" + PathOf(20) +
                                ": whole, 0.0 MB\n");
  const std::string file = PathOf(10) + "/optimizer-00002-of-00002.safetensors";
  Damage(file);
  outcome = RunCheckpoint({"verify", run_});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  EXPECT_THAT(outcome.output,
              HasSubstr("step-00000010: damaged: " + file + ": "));
  EXPECT_THAT(outcome.output, HasSubstr(PathOf(20) + ": whole"));
  EXPECT_THAT(outcome.errors, HasSubstr("1 of 2"));
  // Sizes tell nothing.
  EXPECT_THAT(RunCheckpoint({"ls", run_}).output, Not(HasSubstr("damaged")));
}

TEST_F(CheckpointCommandTest, VerifiesTheFinalModelOfARun) {
  Save(FactsOf(10));
  ASSERT_EQ(mkdir((run_ + "/final").c_str(), 0755), 0);
  CheckpointFacts facts = FactsOf(20, /*servers=*/1);
  facts.state.clear();
  ASSERT_TRUE(WriteCheckpointFiles(facts, run_ + "/final").ok());
  Outcome outcome = RunCheckpoint({"verify", run_});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_THAT(outcome.output, HasSubstr(run_ + "/final: whole"));
  Damage(run_ + "/final/model.safetensors");
  outcome = RunCheckpoint({"verify", run_});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  EXPECT_THAT(outcome.output,
              HasSubstr("damaged: " + run_ + "/final/model.safetensors: "));
}

TEST_F(CheckpointCommandTest, VerifiesOne) {
  Save(FactsOf(10));
  Save(FactsOf(20));
  Damage(PathOf(10) + "/manifest.json");
  EXPECT_EQ(RunCheckpoint({"verify", PathOf(20)}).exit_code, kExitDone);
  const Outcome outcome = RunCheckpoint({"verify", PathOf(10) + "/", "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  const auto json = ParseJson(outcome.output);
  EXPECT_EQ(json["checkpoints"][0]["whole"], false);
  EXPECT_THAT(outcome.errors, HasSubstr("1 of 1"));
}

// Whoever wrote it, and with which chunks.
TEST_F(CheckpointCommandTest, EqualBitsAreEqual) {
  CheckpointFacts facts = FactsOf(10, /*servers=*/1);
  Save(facts);
  const std::string other = MakeFolderForTest();
  facts.servers = 3;
  facts.table.set_chunk_elements(16);
  ASSERT_TRUE(WriteCheckpointFiles(facts, other).ok());
  const Outcome outcome = RunCheckpoint({"diff", run_, other});
  EXPECT_EQ(outcome.exit_code, kExitDone) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("\nall bits are equal\n"));
  EXPECT_THAT(outcome.output, ContainsRegex("\na.momentum_buffer +3 +equal\n"));
}

TEST_F(CheckpointCommandTest, DifferencesAreCounted) {
  Save(FactsOf(10));
  Save(FactsOf(20));
  const Outcome outcome =
      RunCheckpoint({"diff", PathOf(10), PathOf(20), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  const auto json = ParseJson(outcome.output);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["step_a"], 10);
  EXPECT_EQ(json["step_b"], 20);
  ASSERT_EQ(json["tensors"].size(), 6);
  EXPECT_EQ(json["tensors"][1]["name"], "b");
  EXPECT_EQ(json["tensors"][1]["elements"], 35);
  EXPECT_GT(json["tensors"][1]["differing"], 30);
  EXPECT_EQ(json["tensors"][4]["name"], "b.momentum_buffer");
  EXPECT_THAT(RunCheckpoint({"diff", PathOf(10), PathOf(20)}).output,
              HasSubstr("steps 10 and 20\ntensors that differ: 6 of 6\n"));
}

// The steps alone make no difference.
TEST_F(CheckpointCommandTest, EqualBitsOfOtherStepsAreEqual) {
  const Outcome outcome =
      RunCheckpoint({"diff", WriteOnes(FactsOf(10)), WriteOnes(FactsOf(20))});
  EXPECT_EQ(outcome.exit_code, kExitDone) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("all bits are equal\n"));
}

// As from jobs with other optimizers: the tensors that both have are equal, and
// yet the checkpoints are not.
TEST_F(CheckpointCommandTest, StateOfOneSideIsADifference) {
  CheckpointFacts facts = FactsOf(10);
  const std::string a = WriteOnes(facts);
  facts.state = {"exp_avg", "exp_avg_sq"};
  const std::string b = WriteOnes(facts);
  const Outcome text = RunCheckpoint({"diff", a, b});
  EXPECT_EQ(text.exit_code, kExitFailed);
  EXPECT_THAT(text.output, HasSubstr("first only: momentum_buffer\n"));
  EXPECT_THAT(text.output, HasSubstr("second only: exp_avg, exp_avg_sq\n"));
  const Outcome outcome = RunCheckpoint({"diff", a, b, "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  const auto json = ParseJson(outcome.output);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["only_in_a"].dump(), "[\"momentum_buffer\"]");
}

TEST_F(CheckpointCommandTest, RefusesWhatItCannotReadOrCompare) {
  Save(FactsOf(10));
  Save(FactsOf(20));
  Damage(PathOf(20) + "/model-00002-of-00002.safetensors");
  ExpectRefused({"diff", PathOf(10), PathOf(20)},
                "model-00002-of-00002.safetensors: ");
  ExpectRefused({"diff", PathOf(10), WriteOnes(FactsOf(10))}, "models");
  const std::string none = MakeFolderForTest();
  ExpectRefused({"diff", none, none}, none);
  for (const char* action : {"ls", "verify"}) {
    ExpectRefused({action, none + "/none"}, none + "/none");
    ExpectRefused({action, none}, none);
  }
  ExpectRefused({"verfy"}, "did you mean verify?");
  ExpectRefused({"diff", run_}, "missing A B");
  EXPECT_EQ(RunCheckpoint({}).exit_code, kExitUsage);
}

// The numbers of one tensor, all written by the test.
class CheckpointDiffTest : public testing::Test {
 protected:
  // Four floats "a", and state arrays of the given names, all zero.
  static std::string Make(const std::vector<float>& values,
                          const std::vector<std::string>& state = {},
                          int64_t elements = 4) {
    CheckpointFacts facts;
    facts.table = MakeTable({{elements}}, 32);
    facts.state = state;
    const std::string folder = MakeFolderForTest();
    EXPECT_EQ(WriteCheckpointFiles(facts, folder, values), absl::OkStatus());
    return folder;
  }
};

TEST_F(CheckpointDiffTest, TheLargestDifferenceIsTold) {
  const auto diff =
      DiffCheckpoints(Make({1, 2, 3, 4}), Make({1, 2.5, 2.75, 4}));
  ASSERT_TRUE(diff.ok()) << diff.status();
  ASSERT_EQ(diff->tensors.size(), 1);
  EXPECT_EQ(diff->tensors[0].differing, 2);
  EXPECT_EQ(diff->tensors[0].largest_difference, 0.5);
  EXPECT_FALSE(diff->equal());
}

TEST_F(CheckpointDiffTest, BitsCountNotValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto diff = DiffCheckpoints(Make({0, nan, 3, 4}), Make({-0.0f, nan, 3, 4}));
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->tensors[0].differing, 1);
  EXPECT_EQ(diff->tensors[0].largest_difference, 0);
  diff = DiffCheckpoints(Make({9, nan, 3, 4}), Make({0, 2, 3, 8}));
  EXPECT_EQ(diff->tensors[0].differing, 3);
  EXPECT_TRUE(std::isnan(diff->tensors[0].largest_difference));
}

TEST_F(CheckpointDiffTest, StateOfOneSideIsADifference) {
  const auto diff = DiffCheckpoints(Make({1, 2, 3, 4}, {"x", "y"}),
                                    Make({1, 2, 3, 4}, {"y", "z"}));
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_THAT(diff->only_in_a, ElementsAre("x"));
  EXPECT_THAT(diff->only_in_b, ElementsAre("z"));
  ASSERT_EQ(diff->tensors.size(), 2);
  EXPECT_EQ(diff->tensors[1].name, "a.y");
  EXPECT_EQ(diff->tensors[1].differing, 0);
  EXPECT_FALSE(diff->equal());
}

TEST_F(CheckpointDiffTest, AnotherModelIsRefused) {
  EXPECT_THAT(DiffCheckpoints(Make({1, 2, 3, 4}), Make({1, 2}, {}, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       ContainsRegex("a \\[4\\].*a \\[2\\]")));
}

// More elements than are in memory at a time.
TEST_F(CheckpointDiffTest, LargeTensorsAreComparedPartByPart) {
  std::vector<float> values(9 << 20, 1.0f);
  const int64_t elements = static_cast<int64_t>(values.size());
  const std::string a = Make(values, {}, elements);
  values.front() = values[5 << 20] = values.back() = 3;
  const auto diff = DiffCheckpoints(a, Make(values, {}, elements));
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->tensors[0].differing, 3);
  EXPECT_EQ(diff->tensors[0].largest_difference, 2);
}

}  // namespace
}  // namespace tributary
