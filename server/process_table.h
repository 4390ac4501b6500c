// What every process of a job does, and what it waits for.
#ifndef TRIBUTARY_SERVER_PROCESS_TABLE_H_
#define TRIBUTARY_SERVER_PROCESS_TABLE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/membership.h"
#include "server/server_roster.h"

namespace tributary {

struct ProcessView {
  const ServerRoster& servers;
  const Membership& membership;
  StatusReply::Phase phase;
  int64_t round;  // In progress.
  absl::Time now;
};

// Fills StatusReply.process: the servers by shard, then the workers in the
// order in which they came.
void FillProcessTable(const ProcessView& view, StatusReply* reply);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_TABLE_H_
