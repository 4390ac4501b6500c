#include "tests/simulation/jobs/pipeline_scenario.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/parameters/arena_layout.h"
#include "tests/simulation/jobs/tiny_network.h"
#include "worker/nn/network_cuts.h"

namespace tributary::simulation {
namespace {

constexpr uint64_t kLocalStepsGenerator = 43;
// With this number, no job of the regression tests is an all-reduce.
constexpr uint64_t kAllReduceGenerator = 83;

// Returns true if every stage has parameters, which a job requires.
bool AllHaveParameters(const Graph& graph, const std::vector<size_t>& cuts) {
  size_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t end = i < cuts.size() ? cuts[i] : graph.nodes().size();
    bool found = false;
    for (size_t layer = begin; layer < end; ++layer) {
      found = found || !graph.nodes()[layer].parameters.empty();
    }
    if (!found) return false;
    begin = end;
  }
  return true;
}

// Returns the first layers of all stages but the first.
std::vector<size_t> DrawCuts(const Graph& graph, int64_t stages,
                             Random* random) {
  const std::vector<bool> allowed = AllowedCuts(graph);
  std::vector<size_t> layers;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) layers.push_back(i);
  }
  while (static_cast<int64_t>(layers.size()) >= stages) {
    layers.erase(layers.begin() +
                 random->Uniform(0, static_cast<int64_t>(layers.size()) - 1));
  }
  return layers;
}

// Three of ten jobs take local steps. Uses a separate generator, so that the
// other choices do not depend on this one.
void MaybeLocalSteps(Random* random, JobSpec* job) {
  if (!random->Chance(0.3)) return;
  const int64_t inner_steps = random->Uniform(1, 4);
  job->mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(inner_steps);
  job->clear_clip_norm();
  job->set_steps(job->steps() * inner_steps - random->Uniform(0, 1));
}

// Three of ten other jobs are an all-reduce between replicas. Uses a separate
// generator for the same reason.
void MaybeReduceAmongReplicas(Random* random, JobSpec* job) {
  const bool shard_optimizer = random->Chance(0.5);
  if (!random->Chance(0.3) ||
      job->exchange().parameter_server().consistency().has_local_steps()) {
    return;
  }
  job->mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
      shard_optimizer);
}

}  // namespace

void MakePipelineJob(uint64_t seed, Random* random, JobSpec* job) {
  MlpSpec* const mlp = job->mutable_model()->mutable_mlp();
  mlp->clear_hidden();
  mlp->add_hidden(4);  // The worker's sources create another network.
  RandomSpec* const data = job->mutable_data()->mutable_random();
  data->add_shape(4);
  data->set_samples(4);
  data->set_classes(4);
  job->mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_synchronous();
  const int64_t micro_batches = int64_t{1} << random->Uniform(0, 4);
  job->mutable_batch()->set_global(4 * micro_batches);
  job->mutable_batch()->set_micro_batches(micro_batches);
  job->set_steps(random->Uniform(15, 40));
  PipelineSpec* const pipeline = job->mutable_parallel()->mutable_pipeline();
  pipeline->set_stages(static_cast<int>(random->Uniform(2, 4)));
  pipeline->set_schedule(static_cast<PipelineSpec::Schedule>(
      random->Uniform(PipelineSpec::ZERO_BUBBLE, PipelineSpec::Schedule_MAX)));
  const Graph graph =
      BuildTinyNetwork(seed, job->sparse(), /*on_layer=*/nullptr);
  std::vector<size_t> cuts;
  do {
    cuts = DrawCuts(graph, pipeline->stages(), random);
  } while (!AllHaveParameters(graph, cuts));
  for (const size_t layer : cuts) {
    pipeline->add_split(graph.nodes()[layer].name);
  }
  job->mutable_parallel()->set_recompute(random->Chance(0.2));
  Random local_steps(Mix(seed, kLocalStepsGenerator));
  MaybeLocalSteps(&local_steps, job);
  Random all_reduce(Mix(seed, kAllReduceGenerator));
  MaybeReduceAmongReplicas(&all_reduce, job);
}

void MakePipelineCluster(Random* random, Scenario* scenario) {
  scenario->table = BuildTinyNetwork(scenario->seed, scenario->job.sparse(),
                                     /*on_layer=*/nullptr)
                        .table();
  // Most chunks contain several parameters, so that boundaries divide them.
  const int64_t chunk = kArenaAlignment * random->Uniform(1, 4);
  scenario->table.set_chunk_elements(chunk);
  const int64_t chunk_bytes = chunk * static_cast<int64_t>(sizeof(float));
  ExchangeSpec* const exchange = scenario->job.mutable_exchange();
  if (scenario->all_reduce()) {
    exchange->mutable_all_reduce()->set_chunk_bytes(chunk_bytes);
  } else {
    exchange->mutable_parameter_server()->set_chunk_bytes(chunk_bytes);
  }
  const int stages = scenario->job.parallel().pipeline().stages();
  // Whole replicas and spares, or too few workers, which compute several
  // stages each.
  scenario->workers = static_cast<int>(
      random->Chance(0.2)
          ? random->Uniform(1, stages - 1)
          : stages * random->Uniform(1, 3) +
                random->Uniform(0, random->Chance(0.5) ? 2 : 0));
  scenario->expected_workers = scenario->workers;
  if (random->Chance(0.3)) {
    scenario->expected_workers = std::max(1, scenario->workers - 1);
  }
  scenario->ranks.clear();
  for (int worker = 0; worker < scenario->workers; ++worker) {
    scenario->ranks.push_back(
        random->Chance(0.8)
            ? -1
            : static_cast<int>(random->Uniform(0, scenario->workers - 1)));
  }
  scenario->stage_memory = random->Chance(0.4);
  // A step has several times as many events as without stages.
  scenario->events_between_faults = random->Uniform(300, 8000);
}

}  // namespace tributary::simulation
