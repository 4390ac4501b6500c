// Computes the bytes of rows on the wire.
#ifndef TRIBUTARY_COMMON_PLAN_ROW_TRAFFIC_H_
#define TRIBUTARY_COMMON_PLAN_ROW_TRAFFIC_H_

#include <string>

#include "common/plan/exchange_traffic.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the payload bytes with which all workers together request and receive
// the rows of one step and send their gradients, in the job's encoding. Each
// key counts as often as it occurs, and a feature with several keys in a sample
// counts as one with one key, as in ServerStepRowBytes. Zero without tables.
// `job` must be resolved.
ChunkMessages RowTraffic(const JobSpec& job);

// Returns a line on these bytes; nothing without tables.
std::string DescribeRowTraffic(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_ROW_TRAFFIC_H_
