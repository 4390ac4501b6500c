// The job, the cluster and the amount of faults, which the seed determines
// before a history begins.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_SCENARIO_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary::simulation {

struct Scenario {
  uint64_t seed = 0;
  JobSpec job;  // Resolved and valid.
  ParameterTable table;
  DataFacts facts;

  int servers = 1;
  int workers = 1;
  // Number of workers that the coordinator waits for. The remaining workers
  // join later.
  int expected_workers = 1;
  // The rank that each worker requests, indexed by worker; -1 for any rank.
  std::vector<int> ranks;
  absl::Duration lease;
  int pool_threads = 1;
  int worker_threads = 1;

  // Fractions of slow messages, and of repeated and reordered gradient
  // messages.
  double slow_messages = 0;
  absl::Duration slowest_message;
  double repeated = 0;
  double reordered = 0;
  double late_rows = 0;  // See ClientFaults.
  // Transfers between stages pass through shared memory.
  bool stage_memory = false;

  // Number of faults, and the largest number of events between two of them.
  int faults = 0;
  int64_t events_between_faults = 1;

  bool ordered() const;  // True if the result does not depend on timing.
  bool asynchronous() const;
  bool all_reduce() const { return job.exchange().has_all_reduce(); }
  bool pipeline() const { return job.parallel().has_pipeline(); }
  bool tables() const { return job.has_sparse(); }
  // True if workers compute the network of tiny_network.h.
  bool network() const { return pipeline() || tables(); }
  std::string Describe() const;
};

// Which jobs are drawn.
enum class Jobs { kAll, kPipelines, kTables };

// Returns the scenario of this seed.
Scenario MakeScenario(uint64_t seed, Jobs jobs = Jobs::kAll);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_SCENARIO_H_
