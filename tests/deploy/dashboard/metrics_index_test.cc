#include "deploy/dashboard/metrics_index.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
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

  const std::string path_;
};

TEST_F(MetricsIndexTest, KeepsTheNumbersBeforeTheWorkers) {
  const std::string line =
      R"({"step":10,"epoch":0.5,"loss":4.711309749367809,"skipped":null,)"
      R"("name":"a \"b\", {","done":true,"gradient_norm":1e-3,)"
      R"("workers":[{"rank":0,"loss":7}],"seconds":5})";
  Append(absl::StrCat(line, "\n"));
  MetricsIndex index(path_);
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(1));
  const MetricsIndex::Line& found = index.lines()[0];
  EXPECT_EQ(found.step, 10);
  EXPECT_EQ(found.values[0], 0.5);
  EXPECT_EQ(found.values[kLoss], 4.711309749367809);
  EXPECT_EQ(found.values[3], 1e-3);
  EXPECT_TRUE(std::isnan(found.values[kEvaluationLoss]));
  EXPECT_EQ(index.Read(found), line);
}

TEST_F(MetricsIndexTest, ReadsWhatIsAppendedAndWaitsForTheEndOfALine) {
  MetricsIndex index(path_);
  index.Update();  // There is no file yet.
  EXPECT_THAT(index.lines(), IsEmpty());
  Append("{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo");
  index.Update();
  EXPECT_THAT(index.lines(), SizeIs(1));
  Append("ss\":4}\n{\"step\":3,\"loss\":3}\n");
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(3));
  EXPECT_EQ(index.lines()[1].values[kLoss], 4);
  EXPECT_EQ(index.Read(index.lines()[2]), "{\"step\":3,\"loss\":3}");
  EXPECT_EQ(index.generation(), 0);
}

TEST_F(MetricsIndexTest, BeginsAnewWhenLinesWereRemoved) {
  Append("{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n");
  MetricsIndex index(path_);
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
  MetricsIndex index(path_);
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(2));
  EXPECT_EQ(index.lines()[0].step, 5);
  EXPECT_TRUE(std::isnan(index.lines()[0].values[kLoss]));
  EXPECT_EQ(index.lines()[1].step, 6);
}

// Blocks of the file are smaller than this line.
TEST_F(MetricsIndexTest, ReadsLongLines) {
  const std::string padding(9 << 20, 'x');
  Append("{\"step\":1,\"loss\":5}\n");
  Append(absl::StrCat("{\"step\":2,\"loss\":4,\"workers\":[\"", padding,
                      "\"]}\n{\"step\":3,\"loss\":3}\n"));
  MetricsIndex index(path_);
  index.Update();
  ASSERT_THAT(index.lines(), SizeIs(3));
  EXPECT_EQ(index.lines()[1].values[kLoss], 4);
  EXPECT_EQ(index.Read(index.lines()[2]), "{\"step\":3,\"loss\":3}");
}

}  // namespace
}  // namespace tributary
