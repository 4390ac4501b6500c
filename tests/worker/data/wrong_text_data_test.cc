// All the ways in which texts, or no data at all, can be wrong.
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

std::function<JobSpec(const DataFolder&)> TextWith(const std::string& bytes) {
  return [bytes](const DataFolder& folder) {
    const JobSpec job = TextJob(folder);
    folder.Write("text", bytes);
    return job;
  };
}

std::vector<WrongData> WrongText() {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  return {
      {"TextMissing",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->add_path(
                     folder.PathOf("none"));
               }),
       kNotFound,
       {"DIR/none: cannot open: No such file or directory"}},
      {"TextNotNamed",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_text()->clear_path();
               }),
       kInvalid,
       {"data.text.path: must name at least one file"}},
      {"TextEmpty", TextWith(""), kInvalid, {"DIR/text: is empty"}},
      {"TextOfOneByte",
       TextWith("1"),
       kInvalid,
       {"DIR/text: 1 byte is too short"}},
      {"TextTooShortToTrain",
       TextWith("12345678"),
       kInvalid,
       {"DIR/text: 8 bytes are too short", "7 are left for training",
        "model.gpt.context 4 needs at least 8"}},
      {"TextTooShortToEvaluate",
       TextWith("123456789"),
       kInvalid,
       {"DIR/text: 9 bytes are too short", "1 are held out"}},
      {"TextNumpyArray",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->add_path(
                     folder.Write("x.npy", "\x93NUMPY and its numbers"));
               }),
       kInvalid,
       {"DIR/x.npy: is a NumPy array (.npy); data.text reads text",
        "use data.tokens"}},
      {"TextNumbers",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->add_path(folder.Write(
                     "train.bin", std::string("\1\0\2\0\3\2\4\0", 8)));
               }),
       kInvalid,
       {"DIR/train.bin: is binary: 3 of the first 8 bytes are 0",
        "use data.tokens"}},
      {"TextLlmC",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->add_path(folder.Write(
                     "train.bin", "\x88\xd4\x34\x01 and its numbers"));
               }),
       kInvalid,
       {"DIR/train.bin: is a token file of llm.c", "use data.tokens"}},
      {"TextNoTokenizer",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->set_tokenizer(
                     folder.Write("ranks.bin", "x"));
               }),
       kInvalid,
       {"data.text.tokenizer: DIR/ranks.bin: is none of *.json"}},
      {"TextGzCut",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->set_path(
                     0,
                     folder.Write("text.gz", Gzip("some text").substr(0, 20)));
               }),
       kInvalid,
       {"DIR/text.gz: byte 20: gzip data end too early"}},
      {"TextFractionOne",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_text()->set_validation_fraction(
                     1);
               }),
       kInvalid,
       {"data.text.validation_fraction: 1; must be above 0 and below 1"}},
      {"TextForMlp",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->mutable_mlp();
               }),
       kInvalid,
       {"data.text: only model.gpt and model.bert learn from text"}},
      {"TextForRegression",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->set_loss(ModelSpec::MEAN_SQUARED_ERROR);
               }),
       kInvalid,
       {"model.loss: MEAN_SQUARED_ERROR", "data.text"}},
      {"NoData",
       [](const DataFolder&) { return JobSpec(); },
       kInvalid,
       {"data: must set one of idx, csv, text, tokens, images, random and "
        "external"}},
  };
}

using WrongTextDataTest = WrongDataTest;

TEST_P(WrongTextDataTest, IsRefusedWithItsReason) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Text, WrongTextDataTest,
                         testing::ValuesIn(WrongText()), WrongDataTest::NameOf);

}  // namespace
}  // namespace tributary
