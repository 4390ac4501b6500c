// The statistics that a server sends in heartbeats and in its farewell.
#ifndef TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_
#define TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_

#include "common/metrics/traffic.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns `traffic` together with the memory use and the CPU time of this
// process, as a message. Thread-safe.
ProcessStatistics StatisticsOf(const Traffic& traffic);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RECORDS_PROCESS_STATISTICS_H_
