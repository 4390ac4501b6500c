#include "worker/data/click_data_set.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "worker/data/clicks/click_generator.h"
#include "worker/data/formats/feature_hash.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSparse[] = R"(
  table { name: 't' dim: 8 }
  table { name: 'u' dim: 2 }
  feature { column: 'C1' table: 't' }
  feature { name: 'pair' cross: ['C1', 'C26'] table: 'u' }
  feature { column: 'I2' table: 't' })";

JobSpec Job(const std::string& data) {
  JobSpec job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("sparse {", kSparse, "} data {", data, "}"), &job));
  return job;
}

// A line with I1 = `number`, the categories C1 = "a" and C26 = "z", and nothing
// else.
std::string Line(int label, const std::string& number) {
  std::string line = absl::StrCat(label, "\t", number);
  for (int i = 2; i <= 13; ++i) line += '\t';
  line += "\ta";
  for (int i = 2; i <= 25; ++i) line += '\t';
  return line + "\tz\n";
}

class CriteoDataTest : public testing::Test {
 protected:
  std::unique_ptr<DataSet> Open(const std::vector<std::string>& train,
                                const std::vector<std::string>& test = {}) {
    JobSpec job = Job("criteo {}");
    CriteoSpec* const criteo = job.mutable_data()->mutable_criteo();
    for (const std::string& path : train) criteo->add_train(path);
    for (const std::string& path : test) criteo->add_test(path);
    auto data = OpenDataSet(job);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  absl::Status ErrorOf(const std::string& bytes) {
    JobSpec job = Job("criteo {}");
    job.mutable_data()->mutable_criteo()->add_train(
        folder_.Write("wrong.tsv", bytes));
    return OpenDataSet(job).status();
  }

  DataFolder folder_;
};

TEST_F(CriteoDataTest, ReadsNumbersLabelsAndKeysOfSeveralFiles) {
  const auto data = Open({folder_.Write("a.tsv", Line(1, "3") + Line(0, "-2")),
                          folder_.Write("b.tsv.gz", Gzip(Line(1, "")))},
                         {folder_.Write("c.tsv", Line(0, "7"))});
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().kind, DataInfo::Kind::kRows);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(13));
  EXPECT_THAT(data->info().vector_dims, ElementsAre(8, 2, 8));
  EXPECT_EQ(data->train_samples(), 3);
  EXPECT_EQ(data->evaluation_samples(), 1);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {2, 0, 1}, &batch);
  EXPECT_THAT(batch.labels, ElementsAre(1, 1, 0));
  ASSERT_EQ(batch.features.size(), 3u * 13);
  EXPECT_EQ(batch.features[0], 0);
  EXPECT_FLOAT_EQ(batch.features[13], std::log(4.0f));
  EXPECT_EQ(batch.features[26], 0);  // max(-2, 0)
  ASSERT_EQ(batch.feature_keys.size(), 3u);
  const uint64_t a = FeatureHash("C1").Key("a");
  EXPECT_THAT(batch.feature_keys[0].keys, ElementsAre(a, a, a));
  EXPECT_THAT(batch.feature_keys[0].ends, ElementsAre(1, 2, 3));
  const uint64_t pair = FeatureHash("pair").Key({"a", "z"});
  EXPECT_THAT(batch.feature_keys[1].keys, ElementsAre(pair, pair, pair));
  EXPECT_EQ(batch.feature_keys[2].keys[0], FeatureHash("I2").Key(""));
  data->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.labels, ElementsAre(0));
  EXPECT_FLOAT_EQ(batch.features[0], std::log(8.0f));
  EXPECT_THAT(batch.feature_keys[0].keys, ElementsAre(a));
}

TEST_F(CriteoDataTest, ReadsMoreRowsThanABlockHas) {
  std::string bytes;
  for (int i = 0; i < 40000; ++i) {
    bytes += Line(i % 3 == 0, absl::StrCat(i));
  }
  const auto data = Open({folder_.Write("many.tsv", bytes)});
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->train_samples(), 40000);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0, 16383, 16384, 39999}, &batch);
  EXPECT_THAT(batch.labels, ElementsAre(1, 1, 0, 1));
  EXPECT_FLOAT_EQ(batch.features[3 * 13], std::log(40000.0f));
}

TEST_F(CriteoDataTest, AcceptsFormsOfTheSameLines) {
  const std::string line = Line(1, "3");
  const std::string text = line.substr(0, line.size() - 1);
  for (const std::string& bytes :
       {line + line, line + text, text + "\r\n" + text + "\r\n"}) {
    const auto data = Open({folder_.Write("a.tsv", bytes)});
    ASSERT_NE(data, nullptr);
    Batch batch;
    data->ReadTrain(/*epoch=*/0, {0, 1}, &batch);
    EXPECT_EQ(batch.feature_keys[1].keys[1],
              FeatureHash("pair").Key({"a", "z"}));
  }
}

TEST_F(CriteoDataTest, TheFingerprintCoversContentsOrderAndParts) {
  const std::string a = folder_.Write("a.tsv", Line(1, "3"));
  const std::string b = folder_.Write("b.tsv", Line(0, "3"));
  const std::string gz = folder_.Write("a.tsv.gz", Gzip(Line(1, "3")));
  const uint64_t base = Open({a, b})->fingerprint();
  EXPECT_EQ(Open({gz, b})->fingerprint(), base);
  EXPECT_NE(Open({b, a})->fingerprint(), base);
  EXPECT_NE(Open({a}, {b})->fingerprint(), base);
  folder_.Write("b.tsv", Line(0, "4"));
  EXPECT_NE(Open({a, b})->fingerprint(), base);
}

TEST_F(CriteoDataTest, NamesTheFileAndTheLine) {
  const std::string good = Line(1, "3");
  const std::string file = folder_.PathOf("wrong.tsv");
  const struct {
    std::string bytes;
    std::vector<std::string> names;
  } kCases[] = {
      {"", {": is empty"}},
      {Gzip(good), {": is gzip", ".gz"}},
      {good + "\n", {":2: 1 column "}},
      {good + good.substr(2), {":2: 39 columns", "label may be missing"}},
      {good + good.substr(0, good.size() - 1) + "\tx\n", {":2: 41 columns"}},
      {"2" + good.substr(1), {":1: label, column 0: '2'"}},
      {Line(1, "3.5"), {":1: column I1: '3.5'"}},
      {Line(1, "99999999999999999999"), {":1: column I1: "}},
      {good + std::string(70000, 'x'), {":2: ", "65536 bytes"}},
      {good + Line(0, std::string(1 << 21, '1')), {":2: ", "65536 bytes"}},
  };
  for (const auto& test : kCases) {
    for (const std::string& name : test.names) {
      EXPECT_THAT(ErrorOf(test.bytes),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(file), HasSubstr(name))));
    }
  }
  JobSpec job = Job("criteo { train: '/none/a.tsv' }");
  EXPECT_THAT(OpenDataSet(job),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none/a.tsv")));
}

TEST_F(CriteoDataTest, NamesTheLineWithoutAnIntegerKey) {
  JobSpec job = Job(absl::StrCat("criteo { train: '",
                                 folder_.Write("a.tsv", Line(1, "3")), "' }"));
  job.mutable_sparse()->mutable_feature(0)->set_integer_keys(true);
  EXPECT_THAT(OpenDataSet(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("a.tsv:1: column C1: 'a'")));
}

TEST(ClickDataSetTest, UnknownColumnsAreErrors) {
  for (const std::string column : {"C0", "C27", "I14", "x", "0", "40", "c1"}) {
    JobSpec job = Job("clicks {}");
    job.mutable_sparse()->mutable_feature(2)->set_column(column);
    EXPECT_THAT(OpenDataSet(job),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("sparse.feature[2].column: ")))
        << column;
  }
}

TEST(GeneratedClicksTest, HasTheSamplesOfTheGenerator) {
  JobSpec job = Job("clicks { samples: 50 evaluation_samples: 4 seed: 3 }");
  job.mutable_sparse()->mutable_feature(0)->set_integer_keys(true);
  const auto data = OpenDataSet(job);
  ASSERT_EQ(data.status(), absl::OkStatus());
  EXPECT_EQ((*data)->train_samples(), 50);
  EXPECT_EQ((*data)->evaluation_samples(), 4);
  EXPECT_THAT((*data)->info().vector_dims, ElementsAre(8, 2, 8));
  const ClickGenerator generator(job.data().clicks());
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/3, {49, 7}, &batch);
  ASSERT_EQ(batch.labels.size(), 2u);
  for (const int place : {0, 1}) {
    const GeneratedClick click =
        generator.Sample(/*held_out=*/false, place == 0 ? 49 : 7);
    EXPECT_EQ(batch.labels[place], click.label);
    for (int i = 0; i < kCriteoNumbers; ++i) {
      EXPECT_EQ(batch.features[place * kCriteoNumbers + i], click.features[i]);
    }
    EXPECT_EQ(batch.feature_keys[0].keys[place],
              static_cast<uint64_t>(click.categories[0]));
    EXPECT_EQ(batch.feature_keys[2].keys[place],
              FeatureHash("I2").Key(absl::StrCat(click.numbers[1])));
  }
  (*data)->ReadEvaluation(1, 3, &batch);
  EXPECT_EQ(batch.feature_keys[0].keys[1],
            static_cast<uint64_t>(generator.Sample(true, 2).categories[0]));
}

TEST(GeneratedClicksTest, TheFingerprintDependsOnTheSpec) {
  const auto fingerprint = [](const std::string& spec) {
    return (*OpenDataSet(Job(spec)))->fingerprint();
  };
  EXPECT_EQ(fingerprint("clicks {}"), fingerprint("clicks {}"));
  EXPECT_NE(fingerprint("clicks {}"), fingerprint("clicks { seed: 2 }"));
  EXPECT_NE(fingerprint("clicks {}"), fingerprint("clicks { scale: 0.5 }"));
}

TEST(ClickDataSetTest, JobsWithoutTablesReadOnlyTheNumbers) {
  JobSpec job = Job("clicks {}");
  job.clear_sparse();
  const auto data = OpenDataSet(job);
  ASSERT_EQ(data.status(), absl::OkStatus());
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_EQ(batch.features.size(), 13u);
  EXPECT_THAT(batch.feature_keys, IsEmpty());
}

}  // namespace
}  // namespace tributary
