// The statistics that a server sends in heartbeats and in its farewell.
#ifndef TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_
#define TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_

#include "common/metrics/traffic.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns the traffic, and the memory and the CPU time of this process.
// Thread-safe.
ProcessStatistics StatisticsOf(const Traffic& traffic);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_
