// model.external and data.external in ValidateJob, ResolveJob and SetField.
#include <cstdint>
#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

TEST(ExternalJobTest, AcceptsGoodJobs) {
  const Case cases[] = {
      {External, {}, ""},
      {External, {"model.external.config={}"}, ""},
      {External, {"data.external.fingerprint=18446744073709551615"}, ""},
      {External,
       {"data.external={train_samples: 7 evaluation_samples: 3 unit: 'ratings' "
        "units_per_sample: 64}"},
       ""},
      {External,
       {"data.external={name: 'ratings' config: '{\"a\": [1]}'}"},
       ""},
      {External, {"data.idx.directory=digits"}, ""},
      {External, {"data.random={shape: 4}"}, ""},
      {External, {"model.loss=MEAN_SQUARED_ERROR"}, ""},
      {Mlp, {"data.external.name=ratings"}, ""},
      {Mlp,
       {"data.external.name=ratings", "model.loss=MEAN_SQUARED_ERROR"},
       ""},
      {Cnn, {"data.external.name=pictures"}, ""},
      {Gpt, {"data.external={name: 'words' units_per_sample: 64}"}, ""},
  };
  for (const Case& c : cases) {
    const JobSpec job = Apply(c);
    EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
    EXPECT_TRUE(ValidateJob(ResolveJob(job)).ok())
        << ValidateJob(ResolveJob(job));
  }
}

TEST(ExternalJobTest, NamesTheFieldAndWhatIsWrong) {
  const Case cases[] = {
      {External, {"model.external={}"}, "model.external.name: is required"},
      {External,
       {"model.external.name=a b"},
       "model.external.name: \"a b\" is not a name of letters"},
      {External,
       {"model.external.name=../x"},
       "model.external.name: \"../x\" is not a name of letters"},
      {External,
       {"model.external.name=" + std::string(101, 'a')},
       "model.external.name: has 101 bytes, at most 100 are allowed"},
      {External,
       {"model.external.config=[1]"},
       "model.external.config: is not a JSON object; write it like "},
      {External,
       {"model.external.config={\"rank\": }"},
       "model.external.config: is not a JSON object"},
      {External,
       {"data.external={}"},
       "data.external.train_samples: is required"},
      {External,
       {"data.external.train_samples=0"},
       "data.external.train_samples: 0 is not between 1 and"},
      {External,
       {"data.external.evaluation_samples=-1"},
       "data.external.evaluation_samples: -1 is not between 0 and"},
      {External,
       {"data.external.units_per_sample=0"},
       "data.external.units_per_sample: 0 is not between 1 and"},
      {External,
       {"data.external.unit=a lot"},
       "data.external.unit: \"a lot\" is not a name"},
      {External,
       {"data.external={name: 'x' train_samples: 0}"},
       "data.external.train_samples: 0 is not between 1 and"},
      {External,
       {"data.external={name: 'x' config: '7'}"},
       "data.external.config: is not a JSON object"},
      {External,
       {"data.external.config={}"},
       "data.external.config: has no effect without data.external.name"},
      {External,
       {"data.text.path=a.txt"},
       "data.text: model.external cannot read text; use model.gpt or "
       "model.bert"},
      {Mlp,
       {"data.external.train_samples=7"},
       "data.external.name: is required for model.mlp, which computes from "
       "samples"},
      {Gpt,
       {"data.external={name: 'words' units_per_sample: 65}"},
       "data.external.units_per_sample: 65 is not model.gpt.context 64"},
  };
  for (const Case& c : cases) ExpectRefused(c);
}

TEST(ExternalJobTest, ConfigCanBeSetOnTheCommandLine) {
  const JobSpec job =
      Apply({External, {"model.external.config={\"rank\": 32}"}, ""});
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
  const Case sequences = {External, {"data.external.units_per_sample=12"}, ""};
  EXPECT_EQ(UnitsPerSample(Apply(sequences)), 12);
  const Case words = {Gpt, {"data.external.name=words"}, ""};
  EXPECT_EQ(UnitsPerSample(Apply(words)), 64);
}

}  // namespace
}  // namespace tributary
