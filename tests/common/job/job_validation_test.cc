// ValidateJob of common/job/job.h.
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::StartsWith;

std::string Mode(const std::string& mode) {
  return "exchange.parameter_server.consistency." + mode;
}

TEST(ValidateJobTest, AcceptsGoodJobs) {
  for (const auto base : {Mlp, Cnn, Resnet, Gpt, Regression, Synthetic}) {
    ExpectAccepted(base, {""});
  }
  ExpectAccepted(Resnet, {"model.resnet={layers: [3, 4, 6, 3] stem: IMAGENET}",
                          "data.random={shape: [3, 32, 32]}"});
  ExpectAccepted(Cnn, {"data.random={shape: [1, 28, 28]}"});
  ExpectAccepted(
      Mlp, {"model.mlp.hidden=[]", "batch.micro_batches=1", "batch.global=7",
            "seed=0", "data.random={shape: 784}", "optimizer.sgd.nesterov=true",
            "schedule.warmup_steps=100", "exchange.wire_dtype=BFLOAT16",
            "exchange.all_reduce={backend: GLOO shard_optimizer: true}",
            "exchange.compression={top_k {}}",
            "exchange.compression.top_k.fraction=0.5",
            "exchange={wire_dtype: FLOAT32 compression {eight_bit {}}}",
            Mode("local_steps={inner_steps: 500 outer_optimizer "
                 "{learning_rate: 1 momentum: 0 nesterov: false}}")});
  ExpectAccepted(
      Gpt,
      {"data.random={}",
       "schedule={warmup_steps: 10 decay: COSINE final_learning_rate: 1e-4}; "
       "clip_norm=1",
       "schedule={decay: LINEAR decay_steps: 5000}",
       "exchange.parameter_server.chunk_bytes=3145728",
       "exchange.parameter_server.consistency={}", Mode("synchronous={}"),
       Mode("local_steps={}; clip_norm=1"),
       Mode("local_steps={}; exchange.compression.eight_bit={}"),
       Mode("stale_synchronous={}; clip_norm=1"),
       Mode("asynchronous={max_staleness: 0 "
            "learning_rate_by_staleness: true}; clip_norm=1")});
}

TEST(ValidateJobTest, TakesEpochsInPlaceOfSteps) {
  JobSpec job = Mlp();
  job.clear_steps();
  job.set_epochs(0.5);
  EXPECT_TRUE(ValidateJob(job).ok());
  for (const double epochs :
       {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    job.set_epochs(epochs);
    EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                           StartsWith("epochs: ")));
  }
}

TEST(ValidateJobTest, NamesWhatIsMissing) {
  const auto expect = [](const JobSpec& job, const std::string& field) {
    EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                           StartsWith(field + ": ")));
  };
  JobSpec job = Mlp();
  job.clear_steps();
  expect(job, "steps");
  job.clear_optimizer();
  expect(job, "optimizer");
  job.clear_batch();
  expect(job, "batch.global");
  job.clear_data();
  expect(job, "data");
  job.clear_model();
  expect(job, "model");
  expect(JobSpec(), "model");
}

TEST(ValidateJobTest, NamesTheFieldAndTheValue) {
  ExpectValuesRefused(Mlp, {"data.idx.classes=1",
                            "data.idx.classes=257",
                            "data.idx.deviation=0",
                            "batch.global=0",
                            "batch.global=-8",
                            "batch.global=9223372036854775807",
                            "batch.micro_batches=3",
                            "batch.micro_batches=16",
                            "batch.micro_batches=-2",
                            "optimizer.sgd.learning_rate=0",
                            "optimizer.sgd.momentum=1",
                            "optimizer.sgd.weight_decay=-1",
                            "steps=0",
                            "schedule.warmup_steps=101",
                            "schedule.warmup_steps=-1",
                            "clip_norm=-1",
                            "evaluation.every_steps=-1",
                            "evaluation.batch=-1",
                            "checkpoint.every_seconds=-1",
                            "exchange.parameter_server.chunk_bytes=100",
                            "exchange.parameter_server.chunk_bytes=4100",
                            "exchange.parameter_server.chunk_bytes=4194304",
                            "exchange.compression.top_k.fraction=0",
                            "exchange.compression.top_k.fraction=0.6",
                            "output.log_every_steps=0",
                            "output.sample_bytes=-1"});
  ExpectValuesRefused(
      Gpt,
      {"data.text.validation_fraction=1", "data.text.validation_fraction=0",
       "optimizer.adamw.beta1=1", "optimizer.adamw.beta2=-0.1",
       "optimizer.adamw.epsilon=0", "optimizer.adamw.weight_decay=2000"});
  ExpectValuesRefused(Synthetic, {"model.synthetic.parameters=0",
                                  "model.synthetic.parameters=8589934593",
                                  "data.random.samples=0"});
}

TEST(ValidateJobTest, NamesTheField) {
  ExpectFieldsRefused(Mlp, {"clip_norm=nan",
                            "optimizer.sgd.learning_rate=inf",
                            "optimizer.sgd.learning_rate=1e999",
                            "data.idx.directory=\"a\\nb\"",
                            "name=a/b",
                            "name=..",
                            "model.loss=mean_squared_error",
                            "epochs=3",
                            "schedule.decay_steps=50",
                            "schedule.final_learning_rate=0.01",
                            "schedule.decay_every_steps=2",
                            "schedule.decay_factor=0.5",
                            "schedule.power=2",
                            "schedule.rise_share=0.5",
                            "schedule.rise_divisor=5",
                            "checkpoint.best=EVALUATION_LOSS",
                            "output.trace={begin_step: 3 end_step: 3}",
                            "output.trace={end_step: 3}",
                            "output.trace={begin_step: 0 end_step: 1001}",
                            "exchange.compression={}",
                            "exchange.all_reduce.chunk_bytes=100",
                            "output.directory=\"\""});
  ExpectFieldsRefused(
      Gpt, {"data.text.path[1]=\"a\\0b\"", "model.loss=mean_squared_error"});
  ExpectFieldsRefused(Regression, {"data.csv.test=\"\"", "data.csv.classes=3"});
  ExpectFieldsRefused(Resnet, {"exchange.compression={top_k {}}"});
}

TEST(ValidateJobTest, NamesTheFieldOfData) {
  ExpectRefused({
      {Mlp, "data.idx={}", "data.idx.directory: "},
      {Mlp, "data.csv={}", "data.csv.train: "},
      {Mlp, "data.csv.train=t; data.csv.delimiter=ab", "data.csv.delimiter: "},
      {Mlp, "data.csv.train=t; data.csv.delimiter=5", "data.csv.delimiter: "},
      {Mlp, "data.labeled_text={}", "data.labeled_text.train: "},
      {Regression, "model.loss=cross_entropy; data.csv.classes=1",
       "data.csv.classes: 1 "},
      {Gpt, "data.text={}", "data.text.path: "},
      {Gpt, "data.text.path=[a,\"\"]", "data.text.path[1]: "},
      {Gpt, "data.tokens.path=t", "model.gpt.vocabulary: "},
      {Gpt, "data.text.tokenizer=t", "model.gpt.vocabulary: "},
      {Gpt, "data.tokens.validation_fraction=1", "data.tokens.path: "},
      {Cnn, "data.tokens.path=t", "data.tokens: model.cnn "},
      {Gpt, "data.idx.directory=d", "data: model.gpt "},
      {Cnn, "data.csv.train=t", "data: model.cnn "},
      {Resnet, "data.csv.train=t", "data: model.resnet "},
      {Resnet, "data.random={shape: [28, 28]}", "data.random.shape: "},
      {Mlp, "data.text.path=t", "data.text: model.mlp "},
      {Mlp, "data.random={}", "data.random.shape: "},
      {Mlp, "data.random={shape: 4 samples: 0}", "data.random.samples: 0 "},
      {Mlp, "data.random={shape: 4 classes: 1}", "data.random.classes: 1 "},
      {Cnn, "data.random={shape: [28, 28]}", "data.random.shape: "},
      {Cnn, "data.random={shape: [1, 0, 28]}", "data.random.shape[1]: 0 "},
      {Cnn, "data.random={shape: [1048576, 1048576, 1048576]}",
       "data.random.shape: "},
      {Synthetic, "model.synthetic={}", "model.synthetic.parameters: "},
      {Synthetic, "data.csv.train=t", "data: model.synthetic "},
  });
}

TEST(ValidateJobTest, NamesTheFieldOfSteps) {
  ExpectRefused({
      {Mlp, "model={mlp {activation: ACTIVATION_UNSPECIFIED}}",
       "model.mlp.activation: "},
      {Mlp, "optimizer.sgd={}", "optimizer.sgd.learning_rate: "},
      {Mlp, "optimizer.adam.beta1=0.5", "optimizer.adam.learning_rate: "},
      {Mlp, "optimizer.sgd.momentum=0; optimizer.sgd.nesterov=true",
       "optimizer.sgd.nesterov: "},
      {Mlp, "schedule={decay: COSINE warmup_steps: 20 decay_steps: 20}",
       "schedule.decay_steps: 20 "},
      {Mlp, "schedule={decay: COSINE final_learning_rate: 0.2}",
       "schedule.final_learning_rate: 0.2 "},
      {Mlp, "evaluation={disabled: true every_steps: 5}",
       "evaluation.every_steps: "},
      {Mlp, "evaluation.every_steps=5; stop_when={}", "stop_when: "},
      {Mlp, "stop_when.patience=2", "stop_when.metric: "},
      {Mlp, "evaluation.every_steps=5; stop_when.patience=-1",
       "stop_when.patience: -1 "},
      {Mlp, "evaluation.every_steps=5; stop_when={patience: 1 min_delta: -1}",
       "stop_when.min_delta: -1 "},
      {Mlp, "evaluation.every_steps=5; stop_when={target: 1 min_delta: 1}",
       "stop_when.min_delta: "},
      {Mlp, "checkpoint.every_steps=0; optimizer.average_decay=0.9",
       "optimizer.average_decay: "},
      {Mlp, "steps=20; output.trace={begin_step: 20 end_step: 25}",
       "output.trace.begin_step: 20 "},
  });
}

// The learning rate is 0.1.
TEST(ValidateJobTest, NamesTheFieldOfTheSchedule) {
  const std::pair<std::string, std::string> schedules[] = {
      {"table {learning_rate: 0.1}", "table: has no effect"},
      {"decay: COSINE decay_factor: 0.5", "decay_factor: has no effect"},
      {"decay: STEP", "decay_factor: is required"},
      {"decay: STEP decay_factor: 0", "decay_factor: 0 "},
      {"decay: STEP decay_factor: 1.5", "decay_factor: 1.5 "},
      {"decay: STEP decay_factor: 0.5 decay_every_steps: 0",
       "decay_every_steps: 0 "},
      {"decay: STEP decay_factor: 0.5 decay_steps: 5", "decay_steps: "},
      {"decay: EXPONENTIAL decay_factor: 0.5 final_learning_rate: 0.01",
       "final_learning_rate: "},
      {"decay: EXPONENTIAL", "decay_factor: is required"},
      {"decay: POLYNOMIAL power: 0", "power: 0 "},
      {"decay: POLYNOMIAL rise_share: 0.5", "rise_share: "},
      {"decay: ONE_CYCLE rise_share: 0", "rise_share: 0 "},
      {"decay: ONE_CYCLE rise_share: 1", "rise_share: 1 "},
      {"decay: ONE_CYCLE rise_divisor: 0.5", "rise_divisor: 0.5 "},
      {"decay: ONE_CYCLE warmup_steps: 1", "warmup_steps: "},
      {"decay: ONE_CYCLE final_learning_rate: 0.2",
       "final_learning_rate: 0.2 "},
      {"decay: ONE_CYCLE power: 2", "power: "},
      {"decay: TABLE", "table: is required"},
      {"decay: TABLE warmup_steps: 1 table {learning_rate: 0.1}",
       "warmup_steps: "},
      {"decay: TABLE table {step: 1 learning_rate: 0.1}", "table[0].step: 1 "},
      {"decay: TABLE table {step: 0}", "table[0].learning_rate: is required"},
      {"decay: TABLE table {learning_rate: 0.2}",
       "table[0].learning_rate: 0.2 "},
      {"decay: TABLE table {learning_rate: 0.1} table {learning_rate: 0.1}",
       "table[1].step: 0 "},
      {"decay: TABLE table {learning_rate: 0.1} table {step: 5 learning_rate: "
       "-1}",
       "table[1].learning_rate: -1 "},
      {"decay: TABLE decay_factor: 0.5 table {learning_rate: 0.1}",
       "decay_factor: "},
  };
  for (const auto& [schedule, message] : schedules) {
    ExpectRefused(
        {{Mlp, "schedule={" + schedule + "}", "schedule." + message}});
  }
  ExpectAccepted(
      Mlp, {"schedule={warmup_steps: 5 decay: STEP decay_factor: 0.5}",
            "schedule={decay: EXPONENTIAL decay_every_steps: 10 decay_factor: "
            "1}",
            "schedule={warmup_steps: 5 decay: POLYNOMIAL power: 0.5 "
            "decay_steps: 20 final_learning_rate: 0.1}",
            "schedule={decay: ONE_CYCLE decay_steps: 20 rise_share: 0.1 "
            "rise_divisor: 1}",
            "schedule={decay: TABLE table {learning_rate: 0} table {step: 5 "
            "learning_rate: 0.1}}"});
}

TEST(ValidateJobTest, NamesTheFieldThatARuleOfTheProgramLacks) {
  const std::string valid = "optimizer.program={}; exchange={all_reduce {}}";
  ExpectAccepted(External,
                 {valid, valid + "; clip_norm=1", valid + "; on_nonfinite=SKIP",
                  valid + "; exchange.all_reduce.backend=GLOO",
                  valid + "; optimizer.program.state_arrays=0"});
  ExpectRefused({
      {External, "optimizer.program={}",
       "optimizer.program: needs exchange.all_reduce"},
      {Mlp, valid, "optimizer.program: needs model.external"},
      {External, valid + "; exchange.all_reduce.shard_optimizer=true",
       "exchange.all_reduce.shard_optimizer: "},
      {External, valid + "; exchange.all_reduce.backend=NCCL",
       "exchange.all_reduce.backend: "},
      {External, valid + "; schedule.warmup_steps=1", "schedule: "},
      {External, valid + "; optimizer.average_decay=0.9",
       "optimizer.average_decay: does not work with optimizer.program"},
      {External, valid + "; optimizer.group=[{parameters: \"*\"}]",
       "optimizer.group: "},
      {External, valid + "; optimizer.program.state_arrays=17",
       "optimizer.program.state_arrays: 17 "},
      {External, valid + "; optimizer.program.state_arrays=-1",
       "optimizer.program.state_arrays: -1 "},
  });
}

TEST(ValidateJobTest, RefusesChoicesThatAreNone) {
  JobSpec job = Mlp();
  job.set_precision(JobSpec::PRECISION_UNSPECIFIED);
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         StartsWith("precision: ")));
}

TEST(ValidateJobTest, NamesTheFieldOfTheExchange) {
  ExpectRefused({
      {Mlp, "exchange={wire_dtype: FLOAT16 compression {eight_bit {}}}",
       "exchange.compression: needs exchange.wire_dtype"},
      {Mlp, "exchange={transport: MEMORY compression {eight_bit {}}}",
       "exchange.compression: there is nothing to compress"},
      {Mlp, "exchange={all_reduce {} wire_dtype: BFLOAT16}",
       "exchange.wire_dtype: is for exchange.parameter_server"},
      {Mlp, "exchange={all_reduce {} compression {eight_bit {}}}",
       "exchange.compression: is for exchange.parameter_server"},
      {Mlp, "exchange={all_reduce {} transport: MEMORY}",
       "exchange.transport: is for exchange.parameter_server"},
      {Mlp, "exchange={all_reduce {}}; recovery.journal=true",
       "recovery.journal: is for exchange.parameter_server"},
      {Mlp, Mode("stale_synchronous={}; recovery.journal=true"),
       "recovery.journal: needs consistency mode"},
      {Mlp, Mode("asynchronous={}; recovery.journal=true"),
       "recovery.journal: needs consistency mode"},
      {Mlp, Mode("asynchronous={}; exchange.compression.top_k={}"),
       "exchange.compression: works with synchronous"},
  });
  const std::pair<std::string, std::string> modes[] = {
      {"stale_synchronous={staleness: -1}", "stale_synchronous.staleness: -1 "},
      {"asynchronous={max_staleness: -1}", "asynchronous.max_staleness: -1 "},
      {"local_steps={inner_steps: 0}", "local_steps.inner_steps: 0 "},
      {"local_steps={outer_optimizer {learning_rate: 0}}",
       "local_steps.outer_optimizer.learning_rate: 0 "},
      {"local_steps={outer_optimizer {momentum: 1}}",
       "local_steps.outer_optimizer.momentum: 1 "},
      {"local_steps={outer_optimizer {momentum: 0}}",
       "local_steps.outer_optimizer.nesterov: "},
  };
  for (const auto& [mode, message] : modes) {
    ExpectRefused({{Mlp, Mode(mode), Mode(message)}});
  }
}

TEST(ValidateJobTest, PipelinesNeedAModelWithLayersAndOneVersionPerRound) {
  ExpectAccepted(&Gpt,
                 {"parallel.pipeline={ stages: 1 }",
                  "parallel.pipeline={ stages: 64 schedule: GPIPE }",
                  "parallel.pipeline={ stages: 3 split: \"a\" split: "
                  "\"b\" }; parallel.recompute=true",
                  "parallel.pipeline={ stages: 2 }; clip_norm=1; "
                  "recovery.journal=true; precision=BFLOAT16",
                  "parallel.pipeline={ stages: 2 }; " + Mode("local_steps={}"),
                  "parallel.pipeline={ stages: 2 }; clip_norm=1; "
                  "exchange.all_reduce={ shard_optimizer: true }"});
  const std::string two = "parallel.pipeline={ stages: 2 }";
  ExpectRefused(
      {{&Gpt, "parallel.pipeline={}", "parallel.pipeline.stages"},
       {&Gpt, "parallel.pipeline={ stages: 65 }", "parallel.pipeline.stages"},
       {&Gpt, "parallel.pipeline={ stages: 3 split: \"a\" }",
        "parallel.pipeline.split"},
       {&Gpt, two + "; exchange.all_reduce={ backend: NCCL }",
        "exchange.all_reduce.backend"},
       {&External, two + "; exchange.all_reduce={}; optimizer.program={}",
        "parallel.pipeline"},
       {&Gpt, two + "; " + Mode("local_steps={}") + "; clip_norm=1",
        "parallel.pipeline"},
       {&Gpt, two + "; " + Mode("local_steps={}") + "; precision=BFLOAT16",
        "parallel.pipeline"},
       {&Gpt,
        two + "; " + Mode("local_steps={ inner_steps: 1000000000 }") +
            "; batch={ global: 8 micro_batches: 8 }",
        "exchange.parameter_server.consistency.local_steps.inner_steps"},
       {&Gpt, two + "; " + Mode("asynchronous={}"), "parallel.pipeline"},
       {&Synthetic, two, "parallel.pipeline"}});
}

TEST(ValidateJobTest, ShardedWeightsNeedWeightsThatAreFetchedWhole) {
  const std::string sharded = "parallel.sharded_weights=true";
  ExpectAccepted(&Gpt, {sharded, sharded + "; parallel.recompute=true",
                        sharded + "; exchange.transport=WIRE; clip_norm=1"});
  ExpectRefused(
      {{&Gpt, sharded + "; parallel.pipeline={ stages: 2 }",
        "parallel.sharded_weights"},
       {&Gpt, sharded + "; precision=BFLOAT16", "parallel.sharded_weights"},
       {&Gpt, sharded + "; exchange.compression={ eight_bit {} }",
        "parallel.sharded_weights"},
       {&Gpt, sharded + "; exchange.transport=MEMORY",
        "parallel.sharded_weights"},
       {&Gpt, sharded + "; exchange.all_reduce={}", "parallel.sharded_weights"},
       {&Gpt, sharded + "; " + Mode("local_steps={}"),
        "parallel.sharded_weights"},
       {&Synthetic, sharded, "parallel.sharded_weights"}});
}

}  // namespace
}  // namespace tributary
