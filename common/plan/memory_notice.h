// Tells the user how much memory the processes of a job need and use.
#ifndef TRIBUTARY_COMMON_PLAN_MEMORY_NOTICE_H_
#define TRIBUTARY_COMMON_PLAN_MEMORY_NOTICE_H_

#include <set>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"

namespace tributary {

// Watches the status of a job. Not thread-safe.
class MemoryNotice {
 public:
  // Returns the lines to show now: for each host of whose memory the job needs
  // more than half, what its processes need, as soon as all have said so, and
  // what they use, after the first step. Returns each line once.
  std::vector<std::string> Update(const StatusReply& status);

 private:
  std::set<std::string> needs_told_;  // By host.
  std::set<std::string> use_told_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_MEMORY_NOTICE_H_
