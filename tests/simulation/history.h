// Runs one simulated history from its seed and checks its properties.
#ifndef TRIBUTARY_TESTS_SIMULATION_HISTORY_H_
#define TRIBUTARY_TESTS_SIMULATION_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

struct HistoryOptions {
  uint64_t seed = 1;
  Jobs jobs = Jobs::kAll;
  bool tracing = false;
  Sabotage sabotage;
  // Parent folder of the history's own folder, which is removed at the end.
  std::string folder;
};

struct HistoryResult {
  // The property that did not hold; empty if all held.
  std::string violation;
  // Hash of all events in order.
  uint64_t hash = 0;
  int64_t events = 0;
  int64_t updates = 0;
  int64_t attempts = 0;
  int64_t restarts = 0;
  absl::Duration virtual_time;
  // Number of injected faults, by kind.
  std::map<std::string, int64_t> injected;
};

// Runs a job on a simulated cluster, with faults, on the calling thread. A
// process may run only one history at a time.
HistoryResult RunHistory(const HistoryOptions& options);

// Returns a folder for many small files, in memory if the machine has a memory
// file system.
std::string FastFolder();

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_HISTORY_H_
