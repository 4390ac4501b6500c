// One simulated history from its seed to the verdict.
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
  bool tracing = false;
  Sabotage sabotage;
  // Where to put a folder of its own; it is removed.
  std::string folder;
};

struct HistoryResult {
  // What property did not hold; empty: all did.
  std::string violation;
  // Of all events, in their order.
  uint64_t hash = 0;
  int64_t events = 0;
  int64_t updates = 0;
  int64_t attempts = 0;
  int64_t restarts = 0;
  absl::Duration virtual_time;
  std::map<std::string, int64_t> injected;
};

// Runs a whole cluster through a job, and through faults, on this thread. One
// at a time in a process.
HistoryResult RunHistory(const HistoryOptions& options);

// A place for many small files: memory, where there is some.
std::string FastFolder();

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_HISTORY_H_
