#include "deploy/tools/tune/journal/study_journal.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/journal_lock.h"
#include "deploy/tools/tune/search/search_file.h"
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
using ::testing::SizeIs;

SearchSpec Search() {
  return *ParseSearch(R"(
    parameter { path: "lr" number { low: 1e-4 high: 1e-1 log: true } }
    parameter { path: "drop" number { low: 0 high: 0.5 step: 0.25 } }
    parameter { path: "width" integer { low: 16 high: 64 step: 16 } }
    parameter { path: "rule" choice { value: "sgd" value: "adam" } })",
                      "search");
}

class StudyJournalTest : public testing::Test {
 protected:
  StudyJournalTest()
      : path_(MakeTestFolder() + "/study.journal"),
        search_(Search()),
        space_(search_) {}

  std::unique_ptr<StudyJournal> Open(const std::string& study = "") {
    auto journal = std::make_unique<StudyJournal>(path_, study, nullptr);
    EXPECT_EQ(journal->Read(), absl::OkStatus());
    return journal;
  }
  std::string TrialLine(int64_t study = 0) const {
    return CreateTrialLine("me", study, JournalState::kRunning, space_,
                           {0.01, 0.25, 32, 1}, {{"why", "test"}}, absl::Now());
  }

  const std::string path_;
  const SearchSpec search_;
  const SearchSpace space_;
};

TEST_F(StudyJournalTest, ReadsWhatItWrites) {
  const auto journal = Open();
  EXPECT_FALSE(journal->replay().exists());
  ASSERT_EQ(journal->Append({CreateStudyLine("me", "s", {false, true})}),
            absl::OkStatus());
  ASSERT_EQ(journal->Append({TrialLine(), TrialLine()}), absl::OkStatus());
  const absl::Time now = absl::Now();
  ASSERT_EQ(
      journal->Append({IntermediateValueLine("me", 0, 3, 1.5),
                       UserAttributeLine("me", 0, {{"weights", "ab"}}),
                       StateLine("me", 0, JournalState::kComplete, {1, 2}, now),
                       // Of a trial that has ended: no effect.
                       IntermediateValueLine("me", 0, 4, 2.5),
                       StateLine("me", 1, JournalState::kFailed, {}, now)}),
      absl::OkStatus());
  const auto again = Open("s");
  EXPECT_EQ(again->replay().name(), "s");
  EXPECT_THAT(again->replay().directions(), ElementsAre(1, 2));
  ASSERT_THAT(again->replay().trials(), SizeIs(2));
  const JournalTrial& trial = again->replay().trials()[0];
  EXPECT_EQ(trial.state, JournalState::kComplete);
  EXPECT_THAT(trial.values, ElementsAre(1, 2));
  EXPECT_EQ(trial.parameters.at("lr"), 0.01);
  EXPECT_EQ(trial.parameters.at("rule"), 1);
  EXPECT_THAT(trial.intermediate_values, ElementsAre(std::make_pair(3, 1.5)));
  EXPECT_EQ(trial.user_attributes["weights"], "ab");
  EXPECT_EQ(trial.system_attributes["why"], "test");
  EXPECT_EQ(again->replay().trials()[1].state, JournalState::kFailed);
}

TEST_F(StudyJournalTest, ReportsEventsInTheOrderOfTheFile) {
  ASSERT_EQ(Open()->Append({CreateStudyLine("me", "s", {false}), TrialLine(),
                            IntermediateValueLine("me", 0, 7, 1),
                            StateLine("me", 0, JournalState::kComplete, {1},
                                      absl::Now())}),
            absl::OkStatus());
  std::vector<JournalEvent::Kind> kinds;
  StudyJournal journal(path_, "", [&](const JournalEvent& event) {
    kinds.push_back(event.kind);
    return absl::OkStatus();
  });
  ASSERT_EQ(journal.Read(), absl::OkStatus());
  EXPECT_THAT(kinds, ElementsAre(JournalEvent::Kind::kCreated,
                                 JournalEvent::Kind::kIntermediateValue,
                                 JournalEvent::Kind::kState));
}

TEST_F(StudyJournalTest, SelectsOneOfSeveralStudies) {
  ASSERT_EQ(Open()->Append(
                {CreateStudyLine("me", "a", {false}), TrialLine(0),
                 CreateStudyLine("me", "b", {true}), TrialLine(1), TrialLine(1),
                 StateLine("me", 2, JournalState::kFailed, {}, absl::Now())}),
            absl::OkStatus());
  EXPECT_THAT(Open("a")->replay().trials(), SizeIs(1));
  const auto b = Open("b");
  ASSERT_THAT(b->replay().trials(), SizeIs(2));
  EXPECT_EQ(b->replay().trials()[1].id, 2);
  EXPECT_EQ(b->replay().trials()[1].state, JournalState::kFailed);
  EXPECT_FALSE(Open("c")->replay().exists());
}

// optuna_test compares such a journal with what Optuna reads in it.
TEST_F(StudyJournalTest, IdsAreThoseOfOptunaAfterAStudyWasDeleted) {
  const auto delete_line = [](int64_t study) {
    return absl::StrCat(R"({"op_code":1,"worker_id":"x","study_id":)", study,
                        "}");
  };
  ASSERT_EQ(
      Open()->Append(
          {CreateStudyLine("me", "a", {false}), TrialLine(0),
           CreateStudyLine("me", "b", {false}), TrialLine(1), delete_line(0),
           TrialLine(0), CreateStudyLine("me", "a", {true}), delete_line(7),
           TrialLine(7), TrialLine(2), TrialLine(1),
           IntermediateValueLine("me", 2, 4, 0.5),
           StateLine("me", 3, JournalState::kFailed, {}, absl::Now())}),
      absl::OkStatus());
  const auto a = Open("a");
  EXPECT_EQ(a->replay().study_id(), 2);
  EXPECT_THAT(a->replay().directions(), ElementsAre(2));
  ASSERT_THAT(a->replay().trials(), SizeIs(1));
  EXPECT_EQ(a->replay().trials()[0].id, 2);
  EXPECT_THAT(a->replay().trials()[0].intermediate_values,
              ElementsAre(std::make_pair(4, 0.5)));
  const auto b = Open("b");
  ASSERT_THAT(b->replay().trials(), SizeIs(2));
  EXPECT_EQ(b->replay().trials()[1].id, 3);
  EXPECT_EQ(b->replay().trials()[1].state, JournalState::kFailed);
}

TEST_F(StudyJournalTest, AWriterThatHasNotReadTheLastLinesWritesNothing) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_EQ(a->Append({CreateStudyLine("a", "s", {false})}), absl::OkStatus());
  EXPECT_THAT(b->Append({TrialLine()}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(b->replay().exists());
  EXPECT_THAT(b->replay().trials(), IsEmpty());
  EXPECT_EQ(b->Append({TrialLine()}), absl::OkStatus());
  EXPECT_EQ(a->Read(), absl::OkStatus());
  EXPECT_THAT(a->replay().trials(), SizeIs(1));
}

// So the trial that was created last is the writer's own.
TEST_F(StudyJournalTest, ReadsItsOwnLinesBeforeOthersCanAppend) {
  std::vector<absl::StatusCode> codes;
  StudyJournal journal(path_, "", [&](const JournalEvent&) {
    codes.push_back(
        JournalLock::Acquire(path_, absl::Minutes(1), absl::Milliseconds(1))
            .status()
            .code());
    return absl::OkStatus();
  });
  ASSERT_EQ(journal.Append({CreateStudyLine("me", "s", {false}), TrialLine()}),
            absl::OkStatus());
  EXPECT_THAT(codes, ElementsAre(absl::StatusCode::kUnavailable));
}

TEST_F(StudyJournalTest, RemovesALineThatAKilledWriterHasLeft) {
  ASSERT_EQ(Open()->Append({CreateStudyLine("me", "s", {false})}),
            absl::OkStatus());
  const std::string whole = ReadWholeFile(path_);
  for (size_t length = 1; length < TrialLine().size(); length += 40) {
    WriteWholeFile(path_, whole + TrialLine().substr(0, length));
    const auto journal = Open();
    EXPECT_THAT(journal->replay().trials(), IsEmpty());
    ASSERT_EQ(journal->Append({TrialLine()}), absl::OkStatus());
    EXPECT_THAT(Open()->replay().trials(), SizeIs(1));
  }
}

TEST_F(StudyJournalTest, ADamagedLineIsNamed) {
  WriteWholeFile(path_,
                 CreateStudyLine("me", "s", {false}) + "\n{\"op_code\"\n");
  StudyJournal journal(path_, "", nullptr);
  EXPECT_THAT(journal.Read(), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("study.journal:2")));
}

TEST_F(StudyJournalTest, ReadsNumbersThatAreNotFinite) {
  WriteWholeFile(
      path_, CreateStudyLine("me", "s", {false}) + "\n" + TrialLine() + "\n" +
                 R"({"op_code":7,"worker_id":"x","trial_id":0,"step":1,)"
                 R"("intermediate_value":NaN})"
                 "\n");
  EXPECT_THAT(Open()->replay().trials()[0].intermediate_values,
              ElementsAre(testing::Pair(1, testing::IsNan())));
}

TEST_F(StudyJournalTest, OneLockIsHeldAtATime) {
  auto lock = JournalLock::Acquire(path_);
  ASSERT_TRUE(lock.ok());
  EXPECT_THAT(
      JournalLock::Acquire(path_, absl::Minutes(1), absl::Milliseconds(20)),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(".lock")));
  lock->reset();
  EXPECT_TRUE(JournalLock::Acquire(path_).ok());
}

TEST_F(StudyJournalTest, ALockSurvivesItsHolderOnlyForAWhile) {
  // What a killed process leaves.
  ASSERT_EQ(symlink("study.journal", (path_ + ".lock").c_str()), 0);
  EXPECT_TRUE(
      JournalLock::Acquire(path_, /*grace=*/absl::Milliseconds(20)).ok());
}

}  // namespace
}  // namespace tributary
