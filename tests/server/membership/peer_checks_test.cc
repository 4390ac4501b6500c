#include "server/membership/peer_checks.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

ParameterTable Table(int64_t padding) {
  ParameterTable table;
  table.set_chunk_elements(16);
  ParameterTable::Parameter* parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(8);
  parameter->set_group(DECAY);
  parameter->set_padding(padding);
  return table;
}

TEST(PeerChecksTest, NamesAParameterThatDiffersInItsPaddingOnly) {
  const absl::Status status =
      CheckModel(Table(/*padding=*/4), *ArenaLayout::Create(Table(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter 0 is a [8] DECAY with padding 4, expected "
                        "a [8] DECAY"));
}

TEST(PeerChecksTest, NamesAParameterThatDiffersInItsLearningRateOnly) {
  ParameterTable table = Table(/*padding=*/0);
  table.mutable_parameter(0)->set_learning_rate_factor(0.5f);
  const absl::Status status = CheckModel(table, *ArenaLayout::Create(Table(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter 0 is a [8] DECAY with learning_rate_factor "
                        "0.5, expected a [8] DECAY"));
}

JobSpec ExternalJob() {
  JobSpec job;
  job.mutable_evaluation()->set_batch(16);
  ExternalDataSpec* const data = job.mutable_data()->mutable_external();
  data->set_train_samples(1000);
  data->set_evaluation_samples(33);
  data->set_unit("ratings");
  data->set_fingerprint(5);
  return job;
}

DataFacts ExternalFacts() {
  DataFacts facts;
  facts.set_train_samples(1000);
  facts.set_evaluation_pieces(3);
  facts.set_unit("ratings");
  facts.set_fingerprint(5);
  return facts;
}

TEST(PeerChecksTest, AcceptsTheFactsThatTheJobStates) {
  JobSpec job = ExternalJob();
  DataFacts facts = ExternalFacts();
  EXPECT_TRUE(CheckExternalData(facts, job).ok());
  job.mutable_evaluation()->set_disabled(true);
  facts.set_evaluation_pieces(0);
  EXPECT_TRUE(CheckExternalData(facts, job).ok());
  job.mutable_data()->mutable_random();
  EXPECT_TRUE(CheckExternalData(DataFacts(), job).ok());
}

TEST(PeerChecksTest, NamesTheFieldOfTheJobThatAWorkerContradicts) {
  const struct {
    void (*change)(DataFacts*);
    const char* message;
  } kCases[] = {
      {[](DataFacts* facts) { facts->set_train_samples(999); },
       "this worker's DataFacts.train_samples is 999, expected 1000 by "
       "data.external.train_samples of the job"},
      {[](DataFacts* facts) { facts->set_evaluation_pieces(2); },
       "DataFacts.evaluation_pieces is 2, expected 3 by "
       "data.external.evaluation_samples"},
      {[](DataFacts* facts) { facts->set_fingerprint(6); },
       "DataFacts.fingerprint is 6, expected 5 by data.external.fingerprint"},
      {[](DataFacts* facts) { facts->set_unit("rows"); },
       "DataFacts.unit is \"rows\", expected \"ratings\" by "
       "data.external.unit"}};
  for (const auto& test : kCases) {
    DataFacts facts = ExternalFacts();
    test.change(&facts);
    const absl::Status status = CheckExternalData(facts, ExternalJob());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.message));
  }
}

TEST(PeerChecksTest, LeavesToARegisteredDataSetWhatTheJobLeavesOut) {
  JobSpec job = ExternalJob();
  ExternalDataSpec* const data = job.mutable_data()->mutable_external();
  data->Clear();
  data->set_name("ratings");
  DataFacts facts = ExternalFacts();
  facts.set_unit("samples");
  EXPECT_TRUE(CheckExternalData(facts, job).ok());
  data->set_fingerprint(6);
  EXPECT_THAT(std::string(CheckExternalData(facts, job).message()),
              HasSubstr("expected 6 by data.external.fingerprint"));
}

}  // namespace
}  // namespace tributary
