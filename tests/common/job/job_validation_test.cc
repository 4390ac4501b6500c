// ValidateJob of common/job/job.h.
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

using ::testing::StartsWith;

TEST(ValidateJobTest, AcceptsGoodJobs) {
  const Case cases[] = {
      {Mlp, {}, ""},
      {Cnn, {}, ""},
      {Resnet, {}, ""},
      {Resnet, {"model.resnet={layers: [3, 4, 6, 3] stem: IMAGENET}"}, ""},
      {Resnet, {"data.random={shape: [3, 32, 32]}"}, ""},
      {Gpt, {}, ""},
      {Regression, {}, ""},
      {Synthetic, {}, ""},
      {Mlp, {"model.mlp.hidden=[]"}, ""},
      {Mlp, {"batch.micro_batches=1"}, ""},
      {Mlp, {"batch.global=7"}, ""},
      {Mlp, {"seed=0"}, ""},
      {Mlp, {"data.random={shape: 784}"}, ""},
      {Cnn, {"data.random={shape: [1, 28, 28]}"}, ""},
      {Gpt, {"data.random={}"}, ""},
      {Mlp, {"optimizer.sgd.nesterov=true"}, ""},
      {Mlp, {"schedule.warmup_steps=100"}, ""},
      {Gpt,
       {"schedule={warmup_steps: 10 decay: COSINE final_learning_rate: 1e-4}",
        "clip_norm=1"},
       ""},
      {Gpt, {"schedule={decay: LINEAR decay_steps: 5000}"}, ""},
      {Gpt, {"exchange.parameter_server.chunk_bytes=3145728"}, ""},
      {Mlp, {"exchange.wire_dtype=BFLOAT16"}, ""},
      {Mlp, {"exchange.all_reduce={backend: GLOO shard_optimizer: true}"}, ""},
      {Mlp, {"exchange.compression={top_k {}}"}, ""},
      {Mlp, {"exchange.compression.top_k.fraction=0.5"}, ""},
      {Mlp, {"exchange={wire_dtype: FLOAT32 compression {eight_bit {}}}"}, ""},
      {Gpt, {"exchange.parameter_server.consistency={}"}, ""},
      {Gpt, {"exchange.parameter_server.consistency.synchronous={}"}, ""},
      {Gpt,
       {"exchange.parameter_server.consistency.local_steps={}", "clip_norm=1"},
       ""},
      {Gpt,
       {"exchange.parameter_server.consistency.stale_synchronous={}",
        "clip_norm=1"},
       ""},
      {Gpt,
       {"exchange.parameter_server.consistency.asynchronous={max_staleness: 0 "
        "learning_rate_by_staleness: true}",
        "clip_norm=1"},
       ""},
      {Gpt,
       {"exchange.parameter_server.consistency.local_steps={}",
        "exchange.compression.eight_bit={}"},
       ""},
      {Mlp,
       {"exchange.parameter_server.consistency.local_steps={inner_steps: 500 "
        "outer_optimizer {learning_rate: 1 momentum: 0 nesterov: false}}"},
       ""},
  };
  for (const Case& c : cases) {
    const JobSpec job = Apply(c);
    EXPECT_TRUE(ValidateJob(job).ok())
        << absl::StrJoin(c.changes, " ") << ": " << ValidateJob(job);
    EXPECT_TRUE(ValidateJob(ResolveJob(job)).ok())
        << ValidateJob(ResolveJob(job));
  }
}

TEST(ValidateJobTest, AcceptsEpochsInPlaceOfSteps) {
  JobSpec job = Mlp();
  job.clear_steps();
  job.set_epochs(0.5);
  EXPECT_TRUE(ValidateJob(job).ok());
}

TEST(ValidateJobTest, NamesWhatIsMissing) {
  const auto expect = [](JobSpec job, const char* message) {
    const absl::Status status = ValidateJob(job);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  JobSpec job = Mlp();
  job.clear_steps();
  expect(job, "steps: set steps or epochs");
  job.clear_optimizer();
  expect(job, "optimizer: is required: set sgd, adam or adamw");
  job.clear_batch();
  expect(job, "batch.global: is required");
  job.clear_data();
  expect(job,
         "data: is required: set idx, csv, text, tokens, labeled_text, images, "
         "random or "
         "external");
  job.clear_model();
  expect(job,
         "model: is required: set one of mlp, cnn, gpt, resnet, synthetic, "
         "external, bert");
  expect(JobSpec(),
         "model: is required: set one of mlp, cnn, gpt, resnet, synthetic, "
         "external, bert");
}

TEST(ValidateJobTest, NamesTheFieldAndWhatIsWrong) {
  const Case cases[] = {
      // Any field.
      {Mlp, {"clip_norm=nan"}, "clip_norm: must be a finite number"},
      {Mlp,
       {"optimizer.sgd.learning_rate=inf"},
       "optimizer.sgd.learning_rate: must be a finite number"},
      {Mlp,
       {"optimizer.sgd.learning_rate=1e999"},
       "optimizer.sgd.learning_rate: must be a finite number"},
      {Mlp,
       {"model={mlp {activation: ACTIVATION_UNSPECIFIED}}"},
       "model.mlp.activation: ACTIVATION_UNSPECIFIED is not a choice"},
      {Mlp,
       {"data.idx.directory=\"a\\nb\""},
       "data.idx.directory: contains a control character"},
      {Gpt,
       {"data.text.path[1]=\"a\\0b\""},
       "data.text.path[1]: contains a control character"},
      {Mlp, {"name=a/b"}, "name: must not contain /"},
      {Mlp, {"name=.."}, "name: must not contain /"},
      // Data, and what fits it.
      {Mlp, {"data.idx={}"}, "data.idx.directory: is required"},
      {Mlp, {"data.idx.classes=1"}, "data.idx.classes: 1 is not between"},
      {Mlp, {"data.idx.classes=257"}, "data.idx.classes: 257 is not between"},
      {Mlp, {"data.idx.deviation=0"}, "data.idx.deviation: 0 is not at least"},
      {Mlp, {"data.csv={}"}, "data.csv.train: is required"},
      {Mlp,
       {"data.csv.train=t", "data.csv.delimiter=ab"},
       "data.csv.delimiter: must be one character"},
      {Mlp,
       {"data.csv.train=t", "data.csv.delimiter=5"},
       "data.csv.delimiter: must be one character"},
      {Mlp, {"data.labeled_text={}"}, "data.labeled_text.train: is required"},
      {Regression,
       {"data.csv.test=\"\""},
       "data.csv.test: is empty; leave it out for no evaluation"},
      {Regression,
       {"model.loss=cross_entropy", "data.csv.classes=1"},
       "data.csv.classes: 1 is not between"},
      {Regression,
       {"data.csv.classes=3"},
       "data.csv.classes: there are no classes with MEAN_SQUARED_ERROR"},
      {Mlp,
       {"model.loss=mean_squared_error"},
       "model.loss: MEAN_SQUARED_ERROR needs data.csv or data.external"},
      {Gpt,
       {"model.loss=mean_squared_error"},
       "model.loss: MEAN_SQUARED_ERROR needs data.csv or data.external"},
      {Gpt, {"data.text={}"}, "data.text.path: is required"},
      {Gpt, {"data.text.path=[a,\"\"]"}, "data.text.path[1]: is empty"},
      {Gpt,
       {"data.text.validation_fraction=1"},
       "data.text.validation_fraction: 1 is not above 0 and below 1"},
      {Gpt,
       {"data.text.validation_fraction=0"},
       "data.text.validation_fraction: 0 is not above 0 and below 1"},
      {Gpt,
       {"data.tokens.path=t"},
       "model.gpt.vocabulary: is required with data.tokens"},
      {Gpt,
       {"data.text.tokenizer=t"},
       "model.gpt.vocabulary: is required with data.text.tokenizer"},
      {Gpt,
       {"data.tokens.validation_fraction=1"},
       "data.tokens.path: is required"},
      {Cnn,
       {"data.tokens.path=t"},
       "data.tokens: model.cnn cannot read tokens; use model.gpt or "
       "model.bert"},
      {Gpt,
       {"data.idx.directory=d"},
       "data: model.gpt needs text data; set data.text or data.tokens"},
      {Cnn,
       {"data.csv.train=t"},
       "data: model.cnn needs images; set data.images or data.idx"},
      {Resnet,
       {"data.csv.train=t"},
       "data: model.resnet needs images; set data.images or data.idx"},
      {Resnet,
       {"data.random={shape: [28, 28]}"},
       "data.random.shape: has 2 dimensions; write [features]"},
      {Mlp, {"data.text.path=t"}, "data.text: model.mlp cannot read text"},
      {Mlp, {"data.random={}"}, "data.random.shape: is required"},
      {Mlp,
       {"data.random={shape: 4 samples: 0}"},
       "data.random.samples: 0 is not between"},
      {Mlp,
       {"data.random={shape: 4 classes: 1}"},
       "data.random.classes: 1 is not between"},
      {Cnn,
       {"data.random={shape: [28, 28]}"},
       "data.random.shape: has 2 dimensions; write [features]"},
      {Cnn,
       {"data.random={shape: [1, 0, 28]}"},
       "data.random.shape[1]: 0 is not between"},
      {Cnn,
       {"data.random={shape: [1048576, 1048576, 1048576]}"},
       "data.random.shape: a sample has more than"},
      {Synthetic,
       {"model.synthetic={}"},
       "model.synthetic.parameters: is required"},
      {Synthetic,
       {"model.synthetic.parameters=0"},
       "model.synthetic.parameters: 0 is not between 1 and"},
      {Synthetic,
       {"model.synthetic.parameters=8589934593"},
       "model.synthetic.parameters: 8589934593 is not between 1 and"},
      {Synthetic,
       {"data.csv.train=t"},
       "data: model.synthetic reads no data; set data.random={}"},
      {Synthetic,
       {"data.random.samples=0"},
       "data.random.samples: 0 is not between"},
      // Batch.
      {Mlp, {"batch.global=0"}, "batch.global: 0 is not between 1 and"},
      {Mlp, {"batch.global=-8"}, "batch.global: -8 is not between 1 and"},
      {Mlp,
       {"batch.global=9223372036854775807"},
       "batch.global: 9223372036854775807 is not between 1 and"},
      {Mlp,
       {"batch.micro_batches=3"},
       "batch.micro_batches: 3 is not a power of two"},
      {Mlp,
       {"batch.micro_batches=16"},
       "batch.micro_batches: 16 does not divide batch.global 24"},
      {Mlp,
       {"batch.micro_batches=-2"},
       "batch.micro_batches: -2 is not between"},
      // Optimizer and schedule.
      {Mlp, {"optimizer.sgd={}"}, "optimizer.sgd.learning_rate: is required"},
      {Mlp,
       {"optimizer.sgd.learning_rate=0"},
       "optimizer.sgd.learning_rate: 0 is not above 0"},
      {Mlp,
       {"optimizer.adam.beta1=0.5"},
       "optimizer.adam.learning_rate: is required"},
      {Mlp,
       {"optimizer.sgd.momentum=1"},
       "optimizer.sgd.momentum: 1 is not at least 0 and below 1"},
      {Mlp,
       {"optimizer.sgd.momentum=0", "optimizer.sgd.nesterov=true"},
       "optimizer.sgd.nesterov: needs a momentum above 0"},
      {Mlp,
       {"optimizer.sgd.weight_decay=-1"},
       "optimizer.sgd.weight_decay: -1 is not between"},
      {Gpt,
       {"optimizer.adamw.beta1=1"},
       "optimizer.adamw.beta1: 1 is not at least 0 and below 1"},
      {Gpt,
       {"optimizer.adamw.beta2=-0.1"},
       "optimizer.adamw.beta2: -0.1 is not"},
      {Gpt,
       {"optimizer.adamw.epsilon=0"},
       "optimizer.adamw.epsilon: 0 is not at least 1e-30"},
      {Gpt,
       {"optimizer.adamw.weight_decay=2000"},
       "optimizer.adamw.weight_decay: 2000 times the learning rate 0.001"},
      {Mlp, {"epochs=3"}, "epochs: set steps or epochs, not both"},
      {Mlp, {"steps=0"}, "steps: 0 is not between 1 and"},
      {Mlp,
       {"schedule.warmup_steps=101"},
       "schedule.warmup_steps: 101 is more than the job's 100 steps"},
      {Mlp,
       {"schedule.warmup_steps=-1"},
       "schedule.warmup_steps: -1 is not between"},
      {Mlp,
       {"schedule.decay_steps=50"},
       "schedule.decay_steps: has no effect; set schedule.decay"},
      {Mlp,
       {"schedule.final_learning_rate=0.01"},
       "schedule.final_learning_rate: has no effect; set schedule.decay"},
      {Mlp,
       {"schedule={decay: COSINE warmup_steps: 20 decay_steps: 20}"},
       "schedule.decay_steps: 20 is not above schedule.warmup_steps 20"},
      {Mlp,
       {"schedule={decay: COSINE final_learning_rate: 0.2}"},
       "schedule.final_learning_rate: 0.2 is above the optimizer's learning "
       "rate 0.1"},
      {Mlp, {"clip_norm=-1"}, "clip_norm: -1 is not between 0 and"},
      // The rest.
      {Resnet,
       {"exchange.compression={top_k {}}"},
       "exchange.compression: does not work with model.resnet"},
      {Mlp,
       {"evaluation.every_steps=-1"},
       "evaluation.every_steps: -1 is not between"},
      {Mlp, {"evaluation.batch=-1"}, "evaluation.batch: -1 is not between"},
      {Mlp,
       {"evaluation={disabled: true every_steps: 5}"},
       "evaluation.every_steps: has no effect while evaluation.disabled"},
      {Mlp,
       {"evaluation.every_steps=5", "stop_when={}"},
       "stop_when: never stops the job; set stop_when.patience, "
       "stop_when.target, or both"},
      {Mlp,
       {"stop_when.patience=2"},
       "stop_when.metric: needs evaluations during training; set "
       "evaluation.every_steps"},
      {Mlp,
       {"evaluation.every_steps=5", "stop_when.patience=-1"},
       "stop_when.patience: -1 is not between"},
      {Mlp,
       {"evaluation.every_steps=5", "stop_when={patience: 1 min_delta: -1}"},
       "stop_when.min_delta: -1 is not"},
      {Mlp,
       {"evaluation.every_steps=5", "stop_when={target: 1 min_delta: 1}"},
       "stop_when.min_delta: has no effect without stop_when.patience"},
      {Mlp,
       {"checkpoint.every_seconds=-1"},
       "checkpoint.every_seconds: -1 is not"},
      {Mlp,
       {"checkpoint.every_steps=0", "optimizer.average_decay=0.9"},
       "optimizer.average_decay: needs checkpoints"},
      {Mlp,
       {"checkpoint.best=EVALUATION_LOSS"},
       "checkpoint.best: needs evaluations during training"},
      {Mlp,
       {"output.trace={begin_step: 3 end_step: 3}"},
       "output.trace: is from step 3 to step 3, expected begin_step and "
       "end_step with 1 to 1000 steps between them"},
      {Mlp, {"output.trace={end_step: 3}"}, "output.trace: is from step 0"},
      {Mlp,
       {"steps=20", "output.trace={begin_step: 20 end_step: 25}"},
       "output.trace.begin_step: 20 is not a step of this job"},
      {Mlp,
       {"output.trace={begin_step: 0 end_step: 1001}"},
       "output.trace: is from step 0 to step 1001"},
      {Mlp,
       {"exchange.parameter_server.chunk_bytes=100"},
       "exchange.parameter_server.chunk_bytes: 100 is not between 4096"},
      {Mlp,
       {"exchange.parameter_server.chunk_bytes=4100"},
       "exchange.parameter_server.chunk_bytes: 4100 is not a multiple of 64"},
      {Mlp,
       {"exchange.parameter_server.chunk_bytes=4194304"},
       "exchange.parameter_server.chunk_bytes: 4194304 is not between"},
      {Mlp,
       {"exchange.compression={}"},
       "exchange.compression: set top_k or eight_bit"},
      {Mlp,
       {"exchange={wire_dtype: FLOAT16 compression {eight_bit {}}}"},
       "exchange.compression: needs exchange.wire_dtype FLOAT32"},
      {Mlp,
       {"exchange={transport: MEMORY compression {eight_bit {}}}"},
       "exchange.compression: there is nothing to compress with"},
      {Mlp,
       {"exchange.compression.top_k.fraction=0"},
       "exchange.compression.top_k.fraction: 0 is not above 0 and at most 0.5"},
      {Mlp,
       {"exchange.compression.top_k.fraction=0.6"},
       "exchange.compression.top_k.fraction: 0.6 is not above 0"},
      {Mlp,
       {"exchange.parameter_server.consistency.stale_synchronous={staleness: "
        "-1}"},
       "exchange.parameter_server.consistency.stale_synchronous.staleness: -1 "
       "is not between 0 and 64"},
      {Mlp,
       {"exchange.parameter_server.consistency.stale_synchronous={}",
        "recovery.journal=true"},
       "recovery.journal: needs consistency mode synchronous or local_steps"},
      {Mlp,
       {"exchange={all_reduce {} wire_dtype: BFLOAT16}"},
       "exchange.wire_dtype: is for exchange.parameter_server"},
      {Mlp,
       {"exchange={all_reduce {} compression {eight_bit {}}}"},
       "exchange.compression: is for exchange.parameter_server"},
      {Mlp,
       {"exchange={all_reduce {} transport: MEMORY}"},
       "exchange.transport: is for exchange.parameter_server"},
      {Mlp,
       {"exchange.all_reduce.chunk_bytes=100"},
       "exchange.all_reduce.chunk_bytes"},
      {Mlp,
       {"exchange={all_reduce {}}", "recovery.journal=true"},
       "recovery.journal: is for exchange.parameter_server"},
      {Mlp,
       {"exchange.parameter_server.consistency.asynchronous={}",
        "recovery.journal=true"},
       "recovery.journal: needs consistency mode synchronous or local_steps"},
      {Mlp,
       {"exchange.parameter_server.consistency.asynchronous={max_staleness: "
        "-1}"},
       "exchange.parameter_server.consistency.asynchronous.max_staleness: -1 "
       "is not between 0 and"},
      {Mlp,
       {"exchange.parameter_server.consistency.asynchronous={}",
        "exchange.compression.top_k={}"},
       "exchange.compression: works with synchronous and local_steps"},
      {Mlp,
       {"exchange.parameter_server.consistency.local_steps={inner_steps: 0}"},
       "exchange.parameter_server.consistency.local_steps.inner_steps: 0 is "
       "not between 1 and"},
      {Mlp,
       {"exchange.parameter_server.consistency.local_steps={outer_optimizer "
        "{learning_rate: 0}}"},
       "exchange.parameter_server.consistency.local_steps.outer_optimizer."
       "learning_rate: 0 is not above 0"},
      {Mlp,
       {"exchange.parameter_server.consistency.local_steps={outer_optimizer "
        "{momentum: 1}}"},
       "exchange.parameter_server.consistency.local_steps.outer_optimizer."
       "momentum: 1 is not at least 0 and below 1"},
      {Mlp,
       {"exchange.parameter_server.consistency.local_steps={outer_optimizer "
        "{momentum: 0}}"},
       "exchange.parameter_server.consistency.local_steps.outer_optimizer."
       "nesterov: needs a momentum above 0; set it to false"},
      {Mlp, {"output.directory=\"\""}, "output.directory: is empty"},
      {Mlp,
       {"output.log_every_steps=0"},
       "output.log_every_steps: 0 is not between 1 and"},
      {Mlp,
       {"output.sample_bytes=-1"},
       "output.sample_bytes: -1 is not between 0 and"},
  };
  for (const Case& c : cases) ExpectRefused(c);
}

TEST(ValidateJobTest, RefusesChoicesThatAreNone) {
  JobSpec job = Mlp();
  job.set_precision(JobSpec::PRECISION_UNSPECIFIED);
  EXPECT_THAT(std::string(ValidateJob(job).message()),
              StartsWith("precision: PRECISION_UNSPECIFIED is not a choice"));
}

TEST(ValidateJobTest, RefusesEpochsThatAreNone) {
  JobSpec job = Mlp();
  job.clear_steps();
  for (const double epochs :
       {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    job.set_epochs(epochs);
    EXPECT_THAT(std::string(ValidateJob(job).message()),
                StartsWith("epochs: "));
  }
}

}  // namespace
}  // namespace tributary
