#include "tests/simulation/history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/rounds.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/shard_files.h"
#include "tests/common/sparse/reference_table.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/jobs/reference.h"
#include "tests/simulation/processes/server_process.h"
#include "tests/simulation/processes/worker_process.h"

namespace tributary::simulation {
namespace {

// P5: after the last fault a job of this size takes seconds. Anything longer
// waits for leases and timeouts, of which several may follow each other.
constexpr absl::Duration kPatience = absl::Minutes(4);
// Time for all processes to notice that the job is done, from its end or from
// the end of a process's last pause. The longest wait that the end of the job
// does not end is that for the connection of another member of an all-reduce,
// 30 seconds (see GlooMeshOptions).
constexpr absl::Duration kGoodbye = absl::Seconds(40);
// More events than this mean an endless loop.
constexpr int64_t kMostEvents = 3000000;

struct Cluster {
  Process* coordinator = nullptr;
  Process* spare_coordinator = nullptr;
  Process* spare_worker = nullptr;
  Process* late_worker = nullptr;  // Null if all join at the start.
};

Cluster Build(World* world) {
  Cluster cluster;
  const auto next = [world] {
    return static_cast<int>(world->processes.size());
  };
  const auto add = [world](std::unique_ptr<Process> process) {
    world->processes.push_back(std::move(process));
    return world->processes.back().get();
  };
  cluster.coordinator =
      add(std::make_unique<ServerProcess>(world, "server-0", next(),
                                          /*shard=*/0));
  world->servers.push_back(cluster.coordinator);
  for (int shard = 1; shard < world->scenario.servers; ++shard) {
    world->servers.push_back(add(std::make_unique<ServerProcess>(
        world, absl::StrCat("server-", shard), next(), shard)));
  }
  const auto micro_batch = [world] {
    return world->random.Between(absl::Milliseconds(1), absl::Milliseconds(15));
  };
  for (int place = 0; place < world->scenario.workers; ++place) {
    add(std::make_unique<WorkerProcess>(
        world, place, next(), world->scenario.ranks[static_cast<size_t>(place)],
        world->scenario.worker_threads, micro_batch()));
  }
  if (world->scenario.expected_workers < world->scenario.workers) {
    cluster.late_worker = world->processes.back().get();
  }
  cluster.spare_coordinator =
      add(std::make_unique<ServerProcess>(world, "server-0b", next(),
                                          /*shard=*/0));
  cluster.spare_worker = add(std::make_unique<WorkerProcess>(
      world, world->scenario.workers, next(), /*rank=*/0,
      world->scenario.worker_threads, micro_batch()));
  cluster.spare_coordinator->spare = cluster.spare_worker->spare = true;
  for (const auto& process : world->processes) {
    if (process->spare) continue;
    const bool late = process.get() == cluster.late_worker;
    world->loop.After(world->random.Between(absl::ZeroDuration(),
                                            absl::Seconds(late ? 3 : 1)),
                      nullptr, "start", [raw = process.get()] {
                        if (!raw->running()) raw->Start();
                      });
  }
  return cluster;
}

std::string States(const World& world) {
  std::string states;
  for (const auto& process : world.processes) {
    absl::StrAppend(&states, "\n  ", process->name(), ": ", process->State());
  }
  return states;
}

// Runs until the job ends or kPatience is over.
void Run(World* world, Faults* faults) {
  absl::Time quiet_since = absl::InfiniteFuture();
  while (!world->done && world->violation().empty()) {
    if (!world->loop.RunOne()) {
      world->Violate(
          absl::StrCat("P5: nothing happens any more", States(*world)));
      return;
    }
    faults->OnEvent();
    if (!faults->over()) continue;
    if (quiet_since == absl::InfiniteFuture()) quiet_since = world->loop.now();
    if (world->loop.now() - quiet_since > kPatience ||
        world->loop.events() > kMostEvents) {
      world->Violate(absl::StrCat("P5: the job does not end", States(*world)));
    }
  }
}

// Checks that every process notices the end of the job.
void SayGoodbye(World* world) {
  absl::Time awake = world->loop.now();
  for (const auto& process : world->processes) {
    if (!process->running()) continue;
    awake = std::max(awake, process->life()->paused_until);
  }
  const absl::Time end = awake + kGoodbye;
  while (world->loop.now() < end && world->loop.RunOne()) {
  }
  for (const auto& process : world->processes) {
    if (!process->running()) continue;
    const std::string state = process->State();
    // Processes that started late may still look for the coordinator, which has
    // ended.
    if (state == "connecting" || state == "between stays" ||
        state == "not enlisted, version -2" || state == "between attempts" ||
        // A second coordinator that has only begun.
        absl::StartsWith(
            state, absl::StrCat("attempt ", world->ledger.newest_attempt(),
                                ": phase: WAITING"))) {
      continue;
    }
    world->Violate(absl::StrCat("P5: ", process->name(), " has not noticed ",
                                "that the job is done: ", state));
  }
}

std::vector<int64_t> SampleCountsOfSteps(const World& world) {
  const Rounds rounds(world.scenario.job, world.scenario.facts.steps());
  std::vector<int64_t> sample_counts;
  for (int64_t step = 0; step < rounds.count(); ++step) {
    sample_counts.push_back(SampleCountOfRound(world.scenario, step));
  }
  return sample_counts;
}

// Returns the number of chunks, and of servers with tables, which apply each
// step once.
int LedgerPlaces(const World& world) {
  return world.layout.chunk_count() +
         (world.scenario.tables() ? world.scenario.servers : 0);
}

void CheckLedger(World* world) {
  const std::string wrong = world->ledger.Check(
      world->result_attempt, LedgerPlaces(*world), SampleCountsOfSteps(*world));
  if (!wrong.empty()) world->Violate(wrong);
}

std::string Difference(const std::vector<float>& is,
                       const std::vector<float>& should) {
  if (is.size() != should.size()) return "another size";
  for (size_t i = 0; i < is.size(); ++i) {
    if (std::memcmp(&is[i], &should[i], sizeof(float)) != 0) {
      return absl::StrCat("element ", i, " is ", is[i], ", should be ",
                          should[i]);
    }
  }
  return "";
}

void CheckResult(World* world) {
  if (!world->scenario.ordered()) return;
  const ReferenceRun reference = TrainReference(world->scenario, world->layout);
  const ModelState& state = *world->result;
  const std::string weights =
      Difference(state.weights, reference.state.weights);
  if (!weights.empty()) world->Violate(absl::StrCat("P2: weights: ", weights));
  // The optimizer's state may have been lost with a server.
  for (size_t slot = 0;
       slot < reference.state.slots.size() && !state.slots.empty(); ++slot) {
    const std::string wrong =
        slot < state.slots.size()
            ? Difference(state.slots[slot], reference.state.slots[slot])
            : "is missing";
    if (wrong.empty()) continue;
    world->Violate(
        absl::StrCat("P2: the optimizer's array ", slot, ": ", wrong));
  }
  for (size_t table = 0; table < state.tables.size(); ++table) {
    const std::string wrong =
        DifferenceOf(state.tables[table], reference.state.tables[table]);
    if (wrong.empty()) continue;
    world->Violate(absl::StrCat("P2: table ", table, ": ", wrong));
  }
  if (world->scenario.facts.evaluation_pieces() > 0 &&
      world->evaluation_loss != reference.evaluation_loss) {
    world->Violate(absl::StrCat("P2: the evaluation is ",
                                world->evaluation_loss, ", should be ",
                                reference.evaluation_loss));
  }
  if (world->skipped != reference.skipped) {
    world->Violate(absl::StrCat("P2: ", world->skipped,
                                " steps were left out, should be ",
                                reference.skipped));
  }
}

void CheckDisk(World* world) {
  const auto checkpoints =
      ListCheckpoints(CheckpointsFolder(world->disk_folder()));
  if (!checkpoints.ok()) {
    world->Violate(checkpoints.status().ToString());
    return;
  }
  for (const CheckpointName& checkpoint : *checkpoints) {
    const absl::Status verified = VerifyCheckpoint(checkpoint.path);
    if (!verified.ok()) {
      world->Violate(absl::StrCat("P8: ", verified.ToString()));
    }
  }
}

}  // namespace

std::string FastFolder() {
  if (access("/dev/shm", W_OK) == 0) return "/dev/shm";
  return std::filesystem::temp_directory_path();
}

HistoryResult RunHistory(const HistoryOptions& options) {
  const Scenario scenario = MakeScenario(options.seed, options.jobs);
  const absl::StatusOr<ArenaLayout> layout =
      ArenaLayout::Create(scenario.table);
  if (!layout.ok()) std::abort();
  // The name is the same for each run of a seed. Processes in other namespaces
  // may have the same number.
  struct stat space = {};
  if (stat("/proc/self/ns/pid", &space) != 0) std::abort();
  const std::string folder =
      absl::StrCat(options.folder, "/simulation-", space.st_ino, "-", getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/disk");
  HistoryResult result;
  {
    World world(scenario, *layout, folder, options.tracing, options.sabotage);
    world.loop.Trace(scenario.Describe());
    const Cluster cluster = Build(&world);
    Faults faults(&world, cluster.coordinator, cluster.spare_coordinator,
                  cluster.spare_worker);
    Run(&world, &faults);
    if (world.violation().empty()) SayGoodbye(&world);
    if (world.violation().empty()) {
      CheckLedger(&world);
      CheckResult(&world);
      CheckDisk(&world);
    }
    result.violation = world.violation();
    result.hash = world.loop.hash();
    result.events = world.loop.events();
    result.updates = world.ledger.updates();
    result.attempts = world.ledger.newest_attempt();
    result.restarts = world.restarts;
    result.virtual_time = world.loop.now() - absl::UnixEpoch();
    result.injected = world.injected;
  }
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace tributary::simulation
