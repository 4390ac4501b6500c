// model.external and data.external in ValidateJob, ResolveJob and SetField.
#include <cstdint>
#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

TEST(ExternalJobTest, AcceptsGoodJobs) {
  ExpectAccepted(
      External,
      {"", "model.external.config={}", "data.idx.directory=digits",
       "data.external.fingerprint=18446744073709551615",
       "data.external={train_samples: 7 evaluation_samples: 3 unit: 'ratings' "
       "units_per_sample: 64}",
       "data.external={name: 'ratings' config: '{\"a\": [1]}'}",
       "data.random={shape: 4}", "model.loss=MEAN_SQUARED_ERROR"});
  ExpectAccepted(Mlp, {"data.external.name=ratings",
                       "data.external.name=ratings; "
                       "model.loss=MEAN_SQUARED_ERROR"});
  ExpectAccepted(Cnn, {"data.external.name=pictures"});
  ExpectAccepted(Gpt, {"data.external={name: 'words' units_per_sample: 64}"});
}

TEST(ExternalJobTest, NamesTheField) {
  ExpectValuesRefused(External, {"data.external.train_samples=0",
                                 "data.external.evaluation_samples=-1",
                                 "data.external.units_per_sample=0"});
  ExpectFieldsRefused(
      External,
      {"model.external.name=a b", "model.external.name=../x",
       "model.external.name=" + std::string(101, 'a'),
       "model.external.config=[1]", "model.external.config={\"rank\": }",
       "data.external.unit=a lot", "data.external.config={}"});
  ExpectRefused({
      {External, "model.external={}", "model.external.name: "},
      {External, "data.external={}", "data.external.train_samples: "},
      {External, "data.external={name: 'x' train_samples: 0}",
       "data.external.train_samples: 0 "},
      {External, "data.external={name: 'x' config: '7'}",
       "data.external.config: "},
      {External, "data.text.path=a.txt", "data.text: model.external "},
      {Mlp, "data.external.train_samples=7", "data.external.name: "},
      {Gpt, "data.external={name: 'words' units_per_sample: 65}",
       "data.external.units_per_sample: 65 "},
  });
}

TEST(ExternalJobTest, ConfigCanBeSetOnTheCommandLine) {
  const JobSpec job = Apply(External, "model.external.config={\"rank\": 32}");
  EXPECT_EQ(job.model().external().config(), "{\"rank\": 32}");
}

TEST(ExternalJobTest, TheRunIsNamedAfterTheModel) {
  EXPECT_EQ(ResolveJob(External()).name(), "factorization");
  EXPECT_EQ(ModelTitle(External()), "external factorization");
  EXPECT_EQ(ModelTitle(Mlp()), "mlp");
}

TEST(ExternalJobTest, UnitsPerSampleAreThoseOfTheDataOrTheContext) {
  EXPECT_EQ(UnitsPerSample(Mlp()), 1);
  EXPECT_EQ(UnitsPerSample(Gpt()), 64);
  EXPECT_EQ(UnitsPerSample(External()), 1);
  EXPECT_EQ(
      UnitsPerSample(Apply(External, "data.external.units_per_sample=12")), 12);
  EXPECT_EQ(UnitsPerSample(Apply(Gpt, "data.external.name=words")), 64);
}

}  // namespace
}  // namespace tributary
