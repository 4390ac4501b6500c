#include "deploy/tools/tune/tune_study.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/study_runs.h"
#include "deploy/tools/tune/study_writer.h"
#include "deploy/tools/tune/tune_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Json = nlohmann::ordered_json;

constexpr char kTinyJob[] = R"(
  name: "tiny"
  model { mlp { hidden: 8 } }
  data { random { samples: 64 shape: 4 classes: 3 } }
  batch { global: 8 }
  optimizer { adamw { learning_rate: 0.01 } }
  steps: 27
)";

SearchSpec TinySearch(const std::string& lines) {
  const SearchSpec search = *ParseSearch(absl::StrCat(R"(
        parameter { path: "optimizer.adamw.learning_rate"
                    number { low: 1e-3 high: 1 log: true } }
        parameter { path: "model.mlp.hidden"
                    choice { value: "8" value: "16" } }
        objective { metric: "final_loss" goal: MINIMIZE })",
                                                      lines),
                                         "search");
  EXPECT_EQ(ValidateSearch(search), absl::OkStatus());
  return search;
}

class TuneStudyTest : public testing::Test {
 protected:
  std::unique_ptr<TuneStudy> Create(const std::string& lines) {
    EXPECT_EQ(TuneStudy::Create(folder_, TinySearch(lines), kTinyJob, ""),
              absl::OkStatus());
    return Open();
  }
  std::unique_ptr<TuneStudy> Open() {
    auto study = TuneStudy::Open(folder_);
    EXPECT_TRUE(study.ok()) << study.status();
    return *std::move(study);
  }
  std::string journal() const { return folder_ + "/study.journal"; }

  const std::string folder_ = MakeTestFolder();
};

StudyWriter Writer(const std::unique_ptr<TuneStudy>& study) {
  return StudyWriter(study.get());
}

// Does the next thing that can be done, in the order of an only slot.
void DoNext(const std::unique_ptr<TuneStudy>& study) {
  const std::vector<Segment> startable = study->study().Startable();
  if (startable.empty()) {
    ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
              absl::OkStatus());
    return;
  }
  const Segment& segment = startable.front();
  if (segment.trial % 5 == 4) {
    ASSERT_EQ(Writer(study).Fail(segment.trial, "too hot"), absl::OkStatus());
    return;
  }
  const double value =
      *study->study().trials()[segment.trial].point[0] / segment.steps;
  ASSERT_EQ(Writer(study).Report(segment.trial, {{value}, {}},
                                 {{"weights_sha256", "abc"}}),
            absl::OkStatus());
}

TEST_F(TuneStudyTest, ContinuesFromEachPrefixOfItsJournal) {
  const std::string lines =
      "scheduler { successive_halving {} } budget { trials: 27 }";
  auto study = Create(lines);
  std::vector<size_t> sizes;
  while (!study->study().Done()) {
    DoNext(study);
    sizes.push_back(ReadWholeFile(journal()).size());
  }
  ASSERT_EQ(Writer(study).Finish(), absl::OkStatus());
  const std::string whole = ReadWholeFile(journal());
  const Json want = StudyJson(*study);
  EXPECT_TRUE(want["done"].get<bool>());
  ASSERT_GT(sizes.size(), 60u);
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Within the next line, if there is one.
    WriteWholeFile(journal(), whole.substr(0, sizes[i] + i % 50));
    study = Open();
    while (!study->study().Done()) DoNext(study);
    ASSERT_EQ(Writer(study).Finish(), absl::OkStatus());
    ASSERT_EQ(StudyJson(*study), want) << "prefix " << i;
  }
}

// Does the next thing that a population allows, in the order of an only slot.
void DoNextOfPopulation(const std::unique_ptr<TuneStudy>& study) {
  if (!study->study().Startable().empty()) return DoNext(study);
  Descendant next{-1, study->NextPoint()};
  Json attributes = Json::object();
  if (!TakesQueued(study->study())) {
    next = Population(study->search(), &study->space()).Next(study->study());
    attributes["tributary:parent"] = next.parent;
  }
  ASSERT_EQ(Writer(study).Propose(next.point, attributes), absl::OkStatus());
}

TEST_F(TuneStudyTest, APopulationContinuesFromEachPrefixOfItsJournal) {
  // DoNext fails every fifth trial.
  const auto create = [this] {
    SearchSpec search = *ParseSearch(R"(
        parameter { path: "optimizer.adamw.learning_rate"
                    number { low: 1e-3 high: 1 log: true } }
        objective { metric: "final_loss" goal: MINIMIZE }
        scheduler { population_based { every_steps: 7 population: 5 } })",
                                     "search");
    EXPECT_EQ(TuneStudy::Create(folder_, search, kTinyJob, ""),
              absl::OkStatus());
    return Open();
  };
  auto study = create();
  std::vector<size_t> sizes;
  while (!study->study().Done()) {
    DoNextOfPopulation(study);
    sizes.push_back(ReadWholeFile(journal()).size());
  }
  ASSERT_EQ(Writer(study).Finish(), absl::OkStatus());
  const std::string whole = ReadWholeFile(journal());
  const Json want = StudyJson(*study);
  ASSERT_EQ(study->study().size(), 20);
  for (size_t i = 0; i < sizes.size(); ++i) {
    WriteWholeFile(journal(), whole.substr(0, sizes[i] + i % 50));
    study = Open();
    while (!study->study().Done()) DoNextOfPopulation(study);
    ASSERT_EQ(Writer(study).Finish(), absl::OkStatus());
    ASSERT_EQ(StudyJson(*study), want) << "prefix " << i;
  }
}

// Does the next thing of a search with a final evaluation.
void DoNextWithFinal(const std::unique_ptr<TuneStudy>& study) {
  if (!study->study().Done()) return DoNext(study);
  if (!study->final_stage()->begun()) {
    ASSERT_EQ(Writer(study).BeginFinal(), absl::OkStatus());
    return;
  }
  const Segment run = study->Startable().front();
  if (run.final_seed == 2) {
    ASSERT_EQ(Writer(study).FailFinal(run, "too hot"), absl::OkStatus());
    return;
  }
  ASSERT_EQ(Writer(study).ReportFinal(
                run, {{0.1 / static_cast<double>(1 + run.trial)}, {}},
                {{"weights_sha256", "abc"}}),
            absl::OkStatus());
}

TEST_F(TuneStudyTest, TheFinalEvaluationContinuesFromEachPrefix) {
  auto study = Create("budget { trials: 6 } final { best: 2 seeds: 3 }");
  std::vector<size_t> sizes;
  while (!study->Done()) {
    DoNextWithFinal(study);
    sizes.push_back(ReadWholeFile(journal()).size());
  }
  const std::string whole = ReadWholeFile(journal());
  const Json want = StudyJson(*study);
  ASSERT_EQ(want["final"].size(), 2u);
  EXPECT_THAT(FormatFinal(*study), HasSubstr("1 failed"));
  // Trial by trial, the search prefers others.
  EXPECT_EQ(study->Best().size(), 1u);
  EXPECT_EQ(want["final"][0]["trial"], study->Best()[0]);
  EXPECT_EQ(want["final"][0]["seeds"][2]["failure"], "too hot");
  EXPECT_EQ(want["final"][0]["seeds"][1]["weights_sha256"], "abc");
  for (size_t i = 0; i < sizes.size(); ++i) {
    WriteWholeFile(journal(), whole.substr(0, sizes[i] + i % 50));
    study = Open();
    while (!study->Done()) DoNextWithFinal(study);
    ASSERT_EQ(StudyJson(*study), want) << "prefix " << i;
  }
}

TEST_F(TuneStudyTest, FinalRunsHaveOtherSeeds) {
  auto study = Create("budget { trials: 1 } final { best: 1 seeds: 3 }");
  while (!study->study().Done()) DoNext(study);
  ASSERT_EQ(Writer(study).BeginFinal(), absl::OkStatus());
  const std::vector<Segment> runs = study->Startable();
  ASSERT_EQ(runs.size(), 2u);
  const JobSpec job = *study->JobOfTrial(0);
  for (int i = 0; i < 2; ++i) {
    JobSpec want = job;
    want.set_seed(job.seed() + 1 + i);
    EXPECT_EQ(PrintJob(*JobOfSegment(*study, runs[i])), PrintJob(want));
    EXPECT_NE(study->folder().RunOf(runs[i]), study->folder().Trial(0));
  }
  EXPECT_NE(study->folder().RunOf(runs[0]), study->folder().RunOf(runs[1]));
}

TEST_F(TuneStudyTest, KeepsTheReasonOfAFailure) {
  auto study = Create("budget { trials: 2 }");
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  ASSERT_EQ(Writer(study).Fail(0, "out of memory"), absl::OkStatus());
  study = Open();
  EXPECT_EQ(study->study().trials()[0].state, StudyTrial::State::kFailed);
  EXPECT_THAT(FormatStudy(*study, 9), HasSubstr("out of memory"));
}

TEST_F(TuneStudyTest, QueuedTrialsAreTheNext) {
  auto study = Create("budget { trials: 3 }");
  const SearchPoint first = study->NextPoint();
  ASSERT_EQ(Writer(Open()).Enqueue({0.5, absl::nullopt}), absl::OkStatus());
  // The queue was not read yet.
  EXPECT_THAT(Writer(study).Propose(first, Json::object()),
              StatusIs(absl::StatusCode::kAborted));
  ASSERT_EQ(study->study().size(), 1);
  EXPECT_TRUE(study->IsQueued(0));
  const SearchPoint queued = study->study().trials()[0].point;
  EXPECT_EQ(queued[0], 0.5);
  EXPECT_TRUE(study->space().Contains(queued));
  ASSERT_EQ(Writer(study).Begin(0), absl::OkStatus());
  EXPECT_FALSE(study->IsQueued(0));
  ASSERT_EQ(Writer(study).Report(0, {{1}, {}}, Json::object()),
            absl::OkStatus());
  // The sampler's points are the same as without the queue.
  EXPECT_EQ(study->NextPoint(), first);
  study = Open();
  EXPECT_EQ(study->study().trials()[0].point, queued);
  EXPECT_THAT(study->study().Best(), ElementsAre(0));
}

TEST_F(TuneStudyTest, TheEndOfItsTimeIsRemembered) {
  auto study = Create("budget { seconds: 1000 }");
  EXPECT_FALSE(BeginOfStudy(*study).has_value());
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  EXPECT_TRUE(BeginOfStudy(*study).has_value());
  ASSERT_EQ(Writer(study).Close(), absl::OkStatus());
  ASSERT_EQ(Writer(study).Report(0, {{1}, {}}, Json::object()),
            absl::OkStatus());
  EXPECT_TRUE(Open()->study().Done());
}

TEST_F(TuneStudyTest, TimeDoesNotBeginWithATrialOfAnotherProgram) {
  auto study = Create("budget { seconds: 1000 }");
  // Without the attribute that Tributary's trials have.
  ASSERT_EQ(study->journal()->Append({CreateTrialLine(
                "optuna", 0, JournalState::kRunning, study->space(), {0.5, 1},
                Json::object(), absl::Now() - absl::Hours(24))}),
            absl::OkStatus());
  ASSERT_TRUE(study->study().trials()[0].foreign);
  EXPECT_FALSE(BeginOfStudy(*study).has_value());
  const absl::Time before = absl::Now() - absl::Seconds(1);
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  ASSERT_TRUE(BeginOfStudy(*study).has_value());
  EXPECT_GE(*BeginOfStudy(*study), before);
}

TEST_F(TuneStudyTest, RefusesAJobThatIsTooShort) {
  EXPECT_THAT(TuneStudy::Create(
                  folder_,
                  TinySearch("scheduler { successive_halving { rungs: 9 } } "
                             "budget { trials: 3 }"),
                  kTinyJob, ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("successive_halving.rungs")));
  EXPECT_THAT(StudyFolder(folder_).Files(), IsEmpty());
}

TEST_F(TuneStudyTest, AnImportThatIsRefusedLeavesNoStudy) {
  const SearchSpec search = TinySearch("budget { trials: 3 }");
  SearchSpec other = search;
  other.mutable_parameter(0)->set_path("lr");
  const std::string trial =
      CreateTrialLine("optuna", 0, JournalState::kComplete, SearchSpace(other),
                      {0.5, 1}, Json::object(), absl::Now());
  const std::string import = MakeTestFolder() + "/theirs.journal";
  for (const bool maximize : {false, true}) {
    WriteWholeFile(import,
                   absl::StrCat(CreateStudyLine("optuna", "theirs", {maximize}),
                                "\n", trial, "\n"));
    EXPECT_THAT(TuneStudy::Create(folder_, search, kTinyJob, import),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(StudyFolder(folder_).Files(), IsEmpty());
  }
}

// Optuna's delete_study.
constexpr char kDeleteStudy[] =
    R"({"op_code": 1, "worker_id": "optuna", "study_id": 0})";

TEST_F(TuneStudyTest, ADeletedStudyIsRefused) {
  auto study = Create("budget { trials: 3 }");
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  WriteWholeFile(journal(),
                 absl::StrCat(ReadWholeFile(journal()), kDeleteStudy, "\n"));
  // In a tuner, which must not use trials that are gone.
  EXPECT_THAT(Writer(study).Report(0, {{1}, {}}, Json::object()),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(TuneStudy::Open(folder_), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(TuneStudyTest, AStudyThatHasReplacedADeletedOneIsOpened) {
  auto study = Create("budget { trials: 3 } final { best: 1 seeds: 2 }");
  const std::string empty = StudyJson(*study).dump();
  while (!study->Done()) DoNextWithFinal(study);
  WriteWholeFile(
      journal(),
      absl::StrCat(ReadWholeFile(journal()), kDeleteStudy, "\n",
                   CreateStudyLine("optuna", study->name(), {false}), "\n"));
  study = Open();
  EXPECT_EQ(StudyJson(*study).dump(), empty);
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  EXPECT_EQ(study->study().size(), 1);
}

TEST_F(TuneStudyTest, AFolderWithoutAStudyIsNamed) {
  EXPECT_THAT(TuneStudy::Open(folder_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_)));
}

TEST_F(TuneStudyTest, ANewStudyReplacesTheOldOne) {
  auto study = Create("budget { trials: 2 }");
  ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
            absl::OkStatus());
  EXPECT_EQ(Create("budget { trials: 3 }")->study().size(), 0);
}

}  // namespace
}  // namespace tributary
