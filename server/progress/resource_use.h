// What the processes of a job use over time: CPUs, memory, network and GPUs.
#ifndef TRIBUTARY_SERVER_PROGRESS_RESOURCE_USE_H_
#define TRIBUTARY_SERVER_PROGRESS_RESOURCE_USE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Computes what each process uses from the totals in its heartbeats. Bounds the
// number of records: the time between two of them is at least one second, and
// grows with the age of the run, so a run of a month has about 5000 of them.
// Not thread-safe.
class ResourceUse {
 public:
  // Adds the totals of a heartbeat that has arrived at `now`. A process whose
  // totals have decreased has been restarted.
  void Add(const std::string& role, int number, const ProcessStatistics& totals,
           absl::Time now);
  void Remove(const std::string& role, int number);

  // Returns the record for metrics.jsonl if one is due at `now`, when the run
  // is `age` old: an array with an object for each process, whose rates are
  // means since its previous record. Returns null if none is due.
  nlohmann::ordered_json Take(absl::Time now, absl::Duration age);

 private:
  struct Sample {
    ProcessStatistics totals;
    absl::Time time;
  };
  struct Process {
    Sample base;  // At the previous record.
    Sample newest;
  };

  // The processes by role and number.
  std::map<std::pair<std::string, int>, Process> processes_;
  absl::Time last_ = absl::InfinitePast();  // Of the last record.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_RESOURCE_USE_H_
