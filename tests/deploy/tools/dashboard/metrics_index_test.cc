#include "deploy/tools/dashboard/metrics_index.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/untrusted_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kLoss = 1;
constexpr size_t kEvaluationLoss = 7;

class MetricsIndexTest : public testing::Test {
 protected:
  MetricsIndexTest()
      : path_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name(),
            ".jsonl")) {
    std::remove(path_.c_str());
  }

  void Append(const std::string& text) {
    std::ofstream(path_, std::ios::app | std::ios::binary) << text;
  }
  // Replaces the file, as a server that goes back to a checkpoint does.
  void Replace(const std::string& text) {
    const std::string other = absl::StrCat(path_, ".new");
    std::ofstream(other, std::ios::binary) << text;
    ASSERT_EQ(std::rename(other.c_str(), path_.c_str()), 0);
  }

  std::function<absl::StatusOr<InputFile>()> Opener() const {
    return [this] {
      const size_t slash = path_.rfind('/');
      return UntrustedFolder(path_.substr(0, slash))
          .Open(path_.substr(slash + 1));
    };
  }
  static std::string ReadLine(const MetricsIndex& index,
                              const MetricsIndex::Line& line) {
    return index.Read({&line})[0];
  }

  const std::string path_;
};

TEST_F(MetricsIndexTest, KeepsTheNumbersBeforeTheWorkers) {
  const std::string line =
      R"({"step":10,"epoch":0.5,"loss":4.711309749367809,"skipped":null,)"
      R"("name":"a \"b\", {","done":true,"gradient_norm":1e-3,)"
      R"("workers":[{"rank":0,"loss":7}],"seconds":5})";
  Append(absl::StrCat(line, "\n"));
  MetricsIndex index(Opener());
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(1));
  const MetricsIndex::Line& found = index.lines()[0];
  EXPECT_EQ(found.step, 10);
  EXPECT_EQ(found.values[0], 0.5);
  EXPECT_EQ(found.values[kLoss], 4.711309749367809);
  EXPECT_EQ(found.values[3], 1e-3);
  EXPECT_TRUE(std::isnan(found.values[kEvaluationLoss]));
  EXPECT_EQ(ReadLine(index, found), line);
}

TEST_F(MetricsIndexTest, ReadsWhatIsAppendedAndWaitsForTheEndOfALine) {
  MetricsIndex index(Opener());
  index.Update();  // There is no file yet.
  EXPECT_THAT(index.lines(), IsEmpty());
  Append("{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo");
  index.Update();
  EXPECT_THAT(index.lines(), SizeIs(1));
  Append("ss\":4}\n{\"step\":3,\"loss\":3}\n");
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(3));
  EXPECT_EQ(index.lines()[1].values[kLoss], 4);
  EXPECT_EQ(ReadLine(index, index.lines()[2]), "{\"step\":3,\"loss\":3}");
  EXPECT_EQ(index.generation(), 0);
}

TEST_F(MetricsIndexTest, BeginsAnewWhenLinesWereRemoved) {
  Append("{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n");
  MetricsIndex index(Opener());
  index.Update();
  Replace("{\"step\":1,\"loss\":5}\n");
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(1));
  EXPECT_EQ(index.generation(), 1);
  // The same file, longer than before, with other contents.
  {
    std::ofstream file(path_, std::ios::binary);
    file << "{\"step\":7,\"loss\":1}\n{\"step\":8,\"loss\":1}\n";
  }
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(2));
  EXPECT_EQ(index.lines()[0].step, 7);
  EXPECT_EQ(index.generation(), 2);
}

TEST_F(MetricsIndexTest, LeavesOutDamagedLines) {
  Append("\n\nnull\n[1]\n{}\n{\"loss\":3}\n{\"step\":\"x\"}\n{\"step\":-4}\n");
  Append("{\"step\":1e300}\n{\"step\"\n{\"step\":5,\"loss\":}\n");
  Append(std::string("{\"step\":6\0,\"loss\":2}\n", 21));
  MetricsIndex index(Opener());
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(2));
  EXPECT_EQ(index.lines()[0].step, 5);
  EXPECT_TRUE(std::isnan(index.lines()[0].values[kLoss]));
  EXPECT_EQ(index.lines()[1].step, 6);
}

// Blocks of the file are smaller than this line.
TEST_F(MetricsIndexTest, ReadsLongLines) {
  const std::string padding(7 << 20, 'x');
  Append("{\"step\":1,\"loss\":5}\n");
  Append(absl::StrCat("{\"step\":2,\"loss\":4,\"workers\":[\"", padding,
                      "\"]}\n{\"step\":3,\"loss\":3}\n"));
  MetricsIndex index(Opener());
  index.Update(absl::InfiniteDuration());
  ASSERT_THAT(index.lines(), SizeIs(3));
  EXPECT_EQ(index.lines()[1].values[kLoss], 4);
  EXPECT_EQ(ReadLine(index, index.lines()[2]), "{\"step\":3,\"loss\":3}");
}

// Lines that are too long are skipped without holding them in memory.
TEST_F(MetricsIndexTest, SkipsLinesThatAreTooLong) {
  Append("{\"step\":1}\n{\"step\":2,\"x\":\"");
  const std::string piece(1 << 20, 'x');
  MetricsIndex index(Opener());
  for (int64_t bytes = 0; bytes < 3 * MetricsIndex::kMaxLineBytes;
       bytes += static_cast<int64_t>(piece.size())) {
    Append(piece);
    if (bytes == MetricsIndex::kMaxLineBytes)
      index.Update(absl::InfiniteDuration());
  }
  Append("\"}\n{\"step\":3}\n");
  index.Update(absl::InfiniteDuration());
  ASSERT_THAT(index.lines(), SizeIs(2));
  EXPECT_EQ(index.lines()[0].step, 1);
  EXPECT_EQ(index.lines()[1].step, 3);
  EXPECT_EQ(ReadLine(index, index.lines()[1]), "{\"step\":3}");
  Append("{\"step\":4}\n");
  index.Update(absl::InfiniteDuration());
  EXPECT_THAT(index.lines(), SizeIs(3));
  EXPECT_EQ(index.generation(), 0);
}

// A terabyte of nothing takes neither memory nor long.
TEST_F(MetricsIndexTest, BoundsTheTimeOfAnUpdate) {
  Append("{\"step\":1}\n");
  std::filesystem::resize_file(path_, uint64_t{1} << 40);
  MetricsIndex index(Opener());
  index.Update(absl::ZeroDuration());
  index.Update(absl::Milliseconds(10));
  EXPECT_THAT(index.lines(), SizeIs(1));
}

TEST_F(MetricsIndexTest, ContinuesWhereItsTimeWasOver) {
  constexpr int kLines = 10;
  for (int step = 1; step <= kLines; ++step) {
    Append(absl::StrCat("{\"step\":", step, ",\"x\":\"",
                        std::string(1 << 20, 'x'), "\"}\n"));
  }
  MetricsIndex index(Opener());
  index.Update(absl::ZeroDuration());
  EXPECT_LT(index.lines().size(), kLines);
  EXPECT_GT(index.lines().size(), 0);
  for (int i = 0; i < kLines; ++i) index.Update(absl::ZeroDuration());
  ASSERT_THAT(index.lines(), SizeIs(kLines));
  EXPECT_EQ(index.lines().back().step, kLines);
  EXPECT_EQ(index.generation(), 0);
}

TEST_F(MetricsIndexTest, KeepsFewerOfManyLines) {
  std::string lines;
  constexpr int64_t kSteps = 5 * MetricsIndex::kMaxLines / 2;
  for (int64_t step = 1; step <= kSteps; ++step) {
    absl::StrAppend(&lines, "{\"step\":", step, "}\n");
    if (step % 1000 == 0) {
      absl::StrAppend(&lines, "{\"step\":", step, ",\"evaluation_loss\":1}\n");
    }
  }
  Append(lines);
  MetricsIndex index(Opener());
  index.Update(absl::InfiniteDuration());
  EXPECT_LT(index.lines().size(), MetricsIndex::kMaxLines);
  int64_t evaluations = 0;
  int64_t expected = 1;
  for (const MetricsIndex::Line& line : index.lines()) {
    if (line.is_evaluation) {
      ++evaluations;
    } else {
      ASSERT_EQ(line.step, expected);
      expected += 4;
    }
  }
  EXPECT_EQ(expected, (kSteps - 1) / 4 * 4 + 5) << "at equal distances";
  EXPECT_EQ(evaluations, kSteps / 1000) << "all of them";
  index.Clear();
  EXPECT_THAT(index.lines(), IsEmpty());
  index.Update(absl::InfiniteDuration());
  EXPECT_LT(index.lines().size(), MetricsIndex::kMaxLines);
}

std::vector<const MetricsIndex::Line*> AllLines(const MetricsIndex& index) {
  std::vector<const MetricsIndex::Line*> lines;
  for (const MetricsIndex::Line& line : index.lines()) lines.push_back(&line);
  return lines;
}

TEST_F(MetricsIndexTest, ReadsTheNamedMetricsOfEvaluations) {
  Append(
      "{\"step\":1,\"loss\":5,\"workers\":[]}\n"
      "{\"step\":1,\"evaluation_loss\":4,\"evaluation_accuracy\":0.5,"
      "\"seconds\":1,\"evaluation_f1\":0.25,\"evaluation_auc\":0.75}\n"
      "{\"step\":2,\"evaluation_loss\":3,\"evaluation_f1\":null}\n"
      "{\"step\":3,\"evaluation_loss\":2,\"evaluation_auc\":1,"
      "\"stop_reason\":\"the end\"}\n");
  MetricsIndex index(Opener());
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(4));
  EXPECT_FALSE(index.lines()[0].has_named_metrics);
  EXPECT_TRUE(index.lines()[1].has_named_metrics);
  const auto metrics = index.NamedMetrics(AllLines(index));
  ASSERT_THAT(metrics, SizeIs(2));
  const std::vector<double>& f1 = metrics.at("f1");
  ASSERT_THAT(f1, SizeIs(4));
  EXPECT_TRUE(std::isnan(f1[0]));
  EXPECT_EQ(f1[1], 0.25);
  EXPECT_TRUE(std::isinf(f1[2])) << "not finite";
  EXPECT_TRUE(std::isnan(f1[3])) << "absent";
  EXPECT_EQ(metrics.at("auc")[1], 0.75);
  EXPECT_EQ(metrics.at("auc")[3], 1);
  EXPECT_THAT(index.NamedMetrics({&index.lines()[0]}), IsEmpty());
}

// The file of a run may contain anything.
TEST_F(MetricsIndexTest, BoundsTheNamedMetrics) {
  std::string line = "{\"step\":1,\"evaluation_loss\":1";
  for (size_t i = 0; i < 2 * MetricsIndex::kMaxNamedMetrics; ++i) {
    absl::StrAppend(&line, ",\"evaluation_m", i, "\":", i);
  }
  const std::string long_name(MetricsIndex::kMaxMetricName + 1, 'n');
  Append(absl::StrCat(
      "{\"step\":1,\"evaluation_loss\":1,\"evaluation_", long_name,
      "\":1,\"evaluation_<b>\":2,\"evaluation_\":3,",
      "\"evaluation_a\\u0062\":4}\n", line, "}\n",
      "{\"step\":3,\"evaluation_loss\":1,\"evaluation_late\":1,", "\"x\":\"",
      std::string(MetricsIndex::kMaxEvaluationBytes, 'x'), "\"}\n"));
  MetricsIndex index(Opener());
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(3));
  const auto lines = AllLines(index);
  EXPECT_THAT(index.NamedMetrics({lines[0]}), IsEmpty());
  EXPECT_THAT(index.NamedMetrics({lines[2]}), IsEmpty()) << "too long";
  EXPECT_THAT(index.NamedMetrics(lines),
              SizeIs(MetricsIndex::kMaxNamedMetrics));
}

}  // namespace
}  // namespace tributary
