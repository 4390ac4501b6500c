#include "tests/simulation/jobs/scenario.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "tests/simulation/jobs/pipeline_scenario.h"
#include "tests/simulation/jobs/random.h"
#include "tests/simulation/jobs/tables_scenario.h"

namespace tributary::simulation {
namespace {

const ConsistencySpec& ScenarioConsistency(const JobSpec& job) {
  return job.exchange().parameter_server().consistency();
}

// With this number, no job of the regression tests has a pipeline.
constexpr uint64_t kPipelineGenerator = 206;
// With this number, none has tables.
constexpr uint64_t kTablesGenerator = 413;
// With this number, none has LAMB or PLATEAU.
constexpr uint64_t kGlobalRuleGenerator = 577;

// Seven of ten jobs are synchronous.
void SetConsistency(Random* random, ConsistencySpec* mode) {
  const int64_t kind = random->Uniform(0, 19);
  if (kind < 14) {
    mode->mutable_synchronous();
  } else if (kind == 14) {
    mode->mutable_stale_synchronous()->set_staleness(0);
  } else if (kind == 15) {
    mode->mutable_stale_synchronous()->set_staleness(random->Uniform(1, 3));
  } else if (kind < 18) {
    mode->mutable_asynchronous()->set_max_staleness(
        random->Chance(0.3) ? random->Uniform(0, 3) : 32);
    mode->mutable_asynchronous()->set_learning_rate_by_staleness(
        random->Chance(0.3));
  } else {
    mode->mutable_local_steps()->set_inner_steps(random->Uniform(1, 4));
  }
}

// One of five jobs is an all-reduce. Uses a separate generator, so that the
// other jobs do not depend on this choice.
void MaybeAllReduce(Random* random, JobSpec* job) {
  if (!random->Chance(0.2)) return;
  const int64_t micro_batches = int64_t{1} << random->Uniform(1, 3);
  job->mutable_batch()->set_global(4 * micro_batches);
  job->mutable_batch()->set_micro_batches(micro_batches);
  job->mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
      random->Chance(0.5));
}

// Half of the jobs also take checkpoints by time, and some of those take none
// by steps. Uses a separate generator, so that the other choices do not depend
// on this one.
void MaybeCheckpointByTime(Random* random, CheckpointSpec* checkpoint) {
  if (!random->Chance(0.5)) return;
  checkpoint->set_every_seconds(0.01 * random->Uniform(1, 300));
  if (random->Chance(0.3)) checkpoint->set_every_steps(0);
}

void SetOptimizer(Random* random, OptimizerSpec* optimizer) {
  if (random->Chance(0.5)) {
    SgdSpec* const sgd = optimizer->mutable_sgd();
    sgd->set_learning_rate(0.05);
    sgd->set_momentum(random->Chance(0.2) ? 0 : 0.9);
    sgd->set_nesterov(sgd->momentum() > 0 && random->Chance(0.3));
    sgd->set_weight_decay(random->Chance(0.5) ? 0.01 : 0);
  } else {
    AdamSpec* const adam = optimizer->mutable_adamw();
    adam->set_learning_rate(0.01);
    adam->set_weight_decay(0.1);
  }
}

// Three of ten jobs have an optimizer that SetOptimizer does not choose, and as
// many a schedule that MakeJob does not choose. Uses a separate generator, so
// that the other choices do not depend on these.
void MaybeOtherRule(Random* random, JobSpec* job) {
  OptimizerSpec* const optimizer = job->mutable_optimizer();
  const double decay = random->Chance(0.5) ? 0.01 : 0;
  switch (random->Uniform(0, 12)) {
    case 0:
      optimizer->mutable_adagrad()->set_learning_rate(0.05);
      optimizer->mutable_adagrad()->set_rate_decay(0.1);
      optimizer->mutable_adagrad()->set_weight_decay(decay);
      break;
    case 1:
      optimizer->mutable_rmsprop()->set_learning_rate(0.01);
      optimizer->mutable_rmsprop()->set_momentum(decay > 0 ? 0.9 : 0);
      break;
    case 2:
      optimizer->mutable_adadelta()->set_learning_rate(1);
      optimizer->mutable_adadelta()->set_weight_decay(decay);
      break;
    case 3:
      optimizer->mutable_lion()->set_learning_rate(0.01);
      optimizer->mutable_lion()->set_weight_decay(decay);
      break;
    default:
      break;
  }
  if (!random->Chance(0.3)) return;
  job->clear_schedule();
  ScheduleSpec* const schedule = job->mutable_schedule();
  switch (random->Uniform(0, 4)) {
    case 0:
      schedule->set_decay(ScheduleSpec::STEP);
      schedule->set_decay_every_steps(7);
      schedule->set_decay_factor(0.5);
      break;
    case 1:
      schedule->set_decay(ScheduleSpec::EXPONENTIAL);
      schedule->set_decay_every_steps(10);
      schedule->set_decay_factor(0.5);
      break;
    case 2:
      schedule->set_decay(ScheduleSpec::POLYNOMIAL);
      schedule->set_power(1.5);
      break;
    case 3:
      schedule->set_decay(ScheduleSpec::ONE_CYCLE);
      break;
    default:
      schedule->set_decay(ScheduleSpec::TABLE);
      schedule->add_table()->set_learning_rate(0.01);
      schedule->add_table()->set_learning_rate(0.005);
      schedule->mutable_table(1)->set_step(10);
  }
}

// One of eight jobs has the optimizer LAMB, and as many have the schedule
// PLATEAU, in modes that have them. Uses a separate generator, so that the
// other choices do not depend on these.
void MaybeGlobalRule(Random* random, JobSpec* job) {
  const ExchangeTraits traits = ResolveExchange(*job);
  if (random->Chance(0.125) && !traits.whole_batches && !traits.local_sgd) {
    LambSpec* const lamb = job->mutable_optimizer()->mutable_lamb();
    lamb->set_learning_rate(0.01);
    lamb->set_weight_decay(random->Chance(0.5) ? 0.01 : 0);
    job->clear_clip_norm();
  }
  if (random->Chance(0.125) && !traits.local_sgd &&
      traits.one_version_per_round) {
    job->clear_schedule();
    ScheduleSpec* const schedule = job->mutable_schedule();
    schedule->set_decay(ScheduleSpec::PLATEAU);
    schedule->set_decay_factor(0.5);
    schedule->set_patience(random->Uniform(0, 1));
    schedule->set_cooldown(random->Uniform(0, 1));
    // So that few results count as better.
    schedule->set_threshold(0.02);
    if (random->Chance(0.3)) schedule->set_warmup_steps(5);
    job->mutable_evaluation()->set_every_steps(random->Uniform(2, 6));
  }
}

void MustBeValid(const JobSpec& job) {
  const absl::Status valid = ValidateJob(job);
  if (valid.ok()) return;
  std::fprintf(stderr, "the scenario's job: %s\n", valid.ToString().c_str());
  std::abort();
}

JobSpec MakeJob(Random* random, Random* all_reduce, Random* by_time) {
  JobSpec job;
  job.mutable_model()->mutable_synthetic()->set_parameters(64);
  job.mutable_data()->mutable_random();
  const int64_t micro_batches = int64_t{1} << random->Uniform(0, 3);
  job.mutable_batch()->set_global(4 * micro_batches);
  job.mutable_batch()->set_micro_batches(micro_batches);
  SetOptimizer(random, job.mutable_optimizer());
  SetConsistency(random, job.mutable_exchange()
                             ->mutable_parameter_server()
                             ->mutable_consistency());
  MaybeAllReduce(all_reduce, &job);
  const bool local_steps = ScenarioConsistency(job).has_local_steps();
  job.set_steps(
      random->Uniform(20, random->Chance(0.1) ? 100 : 50) *
      (local_steps ? ScenarioConsistency(job).local_steps().inner_steps() : 1));
  if (random->Chance(0.3)) job.set_clip_norm(1.0);
  if (random->Chance(0.3)) job.set_on_nonfinite(JobSpec::SKIP);
  if (random->Chance(0.3)) {
    job.mutable_schedule()->set_warmup_steps(5);
    job.mutable_schedule()->set_decay(ScheduleSpec::COSINE);
  }
  if (random->Chance(0.5)) {
    job.mutable_evaluation()->set_every_steps(random->Uniform(5, 20));
  }
  job.mutable_checkpoint()->set_every_steps(random->Uniform(3, 20));
  job.mutable_checkpoint()->set_keep_last(random->Uniform(0, 3));
  MaybeCheckpointByTime(by_time, job.mutable_checkpoint());
  job.set_seed(random->Bits() >> 1);
  job.mutable_output()->set_directory("simulated");
  return job;
}

// Returns a table of three to six chunks of sixteen elements, with gaps.
ParameterTable MakeTable(Random* random) {
  ParameterTable table;
  table.set_chunk_elements(kArenaAlignment);
  const int64_t chunks = random->Uniform(3, 6);
  for (int64_t used = 0; used < chunks;) {
    ParameterTable::Parameter* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", table.parameter_size()));
    const int64_t size =
        random->Uniform(4, random->Chance(0.3) && used + 1 < chunks ? 32 : 16);
    parameter->add_shape(size);
    parameter->set_group(random->Chance(0.5) ? DECAY : NO_DECAY);
    used += (size + kArenaAlignment - 1) / kArenaAlignment;
  }
  return table;
}

// Lets the workers of a job with tables not wait for each other.
void MakeAsynchronous(JobSpec* job) {
  job->mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_asynchronous();
  job->mutable_sparse()->clear_fixed_lag();
  job->clear_clip_norm();
  job->clear_on_nonfinite();
}

// At the other jobs' rates, gradients of old weights make some networks
// diverge.
void LowerLearningRate(JobSpec* job) {
  if (!job->optimizer().has_sgd()) return;
  SgdSpec* const sgd = job->mutable_optimizer()->mutable_sgd();
  sgd->set_learning_rate(sgd->learning_rate() / 10);
  for (auto& entry : *job->mutable_schedule()->mutable_table()) {
    entry.set_learning_rate(entry.learning_rate() / 10);
  }
}

}  // namespace

bool Scenario::asynchronous() const {
  return ScenarioConsistency(job).has_asynchronous();
}

bool Scenario::ordered() const {
  const ConsistencySpec& mode = ScenarioConsistency(job);
  return !mode.has_asynchronous() &&
         !(mode.has_stale_synchronous() &&
           mode.stale_synchronous().staleness() > 0);
}

std::string Scenario::Describe() const {
  return absl::StrCat(
      "servers ", servers, ", workers ", workers, ", faults ", faults, ", ",
      all_reduce() ? "all_reduce" : ScenarioConsistency(job).ShortDebugString(),
      pipeline() ? absl::StrCat(", ", job.parallel().ShortDebugString()) : "",
      tables() ? absl::StrCat(", ", job.sparse().ShortDebugString()) : "", ", ",
      OptimizerName(job.optimizer()), ", ",
      ScheduleSpec::Decay_Name(job.schedule().decay()), ", steps ", job.steps(),
      ", micro-batches ", job.batch().micro_batches(), ", checkpoint every ",
      job.checkpoint().every_steps(), " steps or ",
      absl::FormatDuration(CheckpointInterval(job)), ", pieces ",
      facts.evaluation_pieces(), job.recovery().journal() ? ", replicas" : "");
}

Scenario MakeScenario(uint64_t seed, Jobs jobs) {
  Random random(Mix(seed, 17));
  Scenario scenario;
  scenario.seed = seed;
  Random all_reduce(Mix(seed, 56));
  Random by_time(Mix(seed, 57));
  // As for MaybeAllReduce: one of five jobs has a pipeline.
  Random pipeline(Mix(seed, kPipelineGenerator));
  // One of six jobs has tables, and then neither a pipeline nor an all-reduce.
  Random tables(Mix(seed, kTablesGenerator));
  const bool has_tables =
      (tables.Chance(1 / 6.) && jobs == Jobs::kAll) || jobs == Jobs::kTables;
  const bool has_pipeline =
      (pipeline.Chance(0.2) || jobs == Jobs::kPipelines) && !has_tables;
  JobSpec job = MakeJob(&random, &all_reduce, &by_time);
  if (has_pipeline) MakePipelineJob(seed, &pipeline, &job);
  if (has_tables) MakeTablesJob(&tables, &job);
  Random asynchronous(Mix(seed, 59));
  const bool is_asynchronous = has_tables && asynchronous.Chance(0.15);
  if (is_asynchronous) MakeAsynchronous(&job);
  Random row_format(Mix(seed, 61));
  if (has_tables && row_format.Chance(0.3)) {
    job.mutable_sparse()->set_wire_dtype(SparseSpec::INT8);
  }
  Random rule(Mix(seed, 58));
  MaybeOtherRule(&rule, &job);
  Random global_rule(Mix(seed, kGlobalRuleGenerator));
  MaybeGlobalRule(&global_rule, &job);
  if (is_asynchronous) LowerLearningRate(&job);
  scenario.job = ResolveJob(job);
  MustBeValid(scenario.job);
  scenario.table = MakeTable(&random);
  DataFacts& facts = scenario.facts;
  // The last batch of an epoch is short, so that some micro-batches are empty.
  const int64_t global = scenario.job.batch().global();
  facts.set_train_samples(16 * global - random.Uniform(0, global - 1));
  facts.set_steps_per_epoch(16);
  facts.set_steps(scenario.job.steps());
  facts.set_evaluation_pieces(random.Chance(0.6) ? random.Uniform(1, 5) : 0);
  if (job.schedule().decay() == ScheduleSpec::PLATEAU) {
    facts.set_evaluation_pieces(
        std::max<int64_t>(1, facts.evaluation_pieces()));
  }
  facts.set_fingerprint(seed);
  facts.set_unit("rows");
  // A piece of the evaluation is one sample.
  scenario.job.mutable_evaluation()->set_batch(1);
  // The smallest valid chunks are larger than the model.
  ExchangeSpec* const exchange = scenario.job.mutable_exchange();
  constexpr int64_t kChunkBytes = kArenaAlignment * sizeof(float);
  scenario.servers = static_cast<int>(random.Uniform(1, 4));
  scenario.workers = static_cast<int>(random.Uniform(1, 5));
  scenario.expected_workers = scenario.workers;
  if (scenario.all_reduce()) {
    exchange->mutable_all_reduce()->set_chunk_bytes(kChunkBytes);
    scenario.servers = 1;
    scenario.workers = static_cast<int>(all_reduce.Uniform(2, 5));
    scenario.expected_workers =
        scenario.workers - (all_reduce.Chance(0.3) ? 1 : 0);
  } else {
    exchange->mutable_parameter_server()->set_chunk_bytes(kChunkBytes);
  }
  scenario.lease = random.Between(absl::Seconds(2), absl::Seconds(8));
  scenario.pool_threads = static_cast<int>(random.Uniform(1, 3));
  scenario.worker_threads = static_cast<int>(random.Uniform(1, 3));
  for (int worker = 0; worker < scenario.workers; ++worker) {
    scenario.ranks.push_back(
        random.Chance(0.7)
            ? -1
            : static_cast<int>(random.Uniform(0, scenario.workers - 1)));
  }
  scenario.slow_messages = random.Chance(0.5) ? 0.02 : 0;
  scenario.slowest_message =
      random.Between(absl::Milliseconds(5), absl::Milliseconds(300));
  scenario.repeated = random.Chance(0.4) ? 0.1 : 0;
  scenario.reordered = random.Chance(0.4) ? 0.3 : 0;
  scenario.faults =
      static_cast<int>(random.Chance(0.05) ? 0 : random.Uniform(1, 8));
  scenario.events_between_faults = random.Uniform(100, 1500);
  if (has_pipeline) MakePipelineCluster(&pipeline, &scenario);
  if (has_tables) MakeTablesCluster(&tables, &scenario);
  // A separate generator, so that this choice does not affect the others.
  Random replicas(Mix(seed, 55));
  const ConsistencySpec& mode = ScenarioConsistency(scenario.job);
  if (scenario.servers > 1 &&
      (mode.has_synchronous() || mode.has_local_steps()) &&
      replicas.Chance(0.3)) {
    scenario.job.mutable_recovery()->set_journal(true);
  }
  return scenario;
}

}  // namespace tributary::simulation
