// The assignments that a worker has shown to a server.
#ifndef TRIBUTARY_SERVER_SERVICE_SHOWN_ASSIGNMENTS_H_
#define TRIBUTARY_SERVER_SERVICE_SHOWN_ASSIGNMENTS_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Checks that contributions belong to micro-batches, and to chunks, that were
// assigned to the worker. A worker may still finish what an earlier assignment
// has told it to compute, so an assignment that is replaced holds for the steps
// that were open at that time. Not thread-safe.
class ShownAssignments {
 public:
  // Adds an assignment that the coordinator has made. No effect unless its
  // generation is larger than that of the newest one. The worker cannot have
  // begun a step after `newest_step` under its earlier assignments.
  void Add(const Assigned& assigned, int64_t newest_step);

  // Returns InvalidArgument if chunk number `chunk` of a micro-batch of `node`,
  // in a reduction tree of `leaves` leaves, was not assigned to the worker in
  // this step. Accepts nodes that are not in the tree.
  absl::Status Check(int64_t step, int node, int leaves, int chunk) const;

 private:
  struct Shown {
    int begin = 0;
    int end = 0;
    int chunk_begin = 0;
    int chunk_end = 0;
    int64_t last_step = 0;
    std::string text;  // For messages.
  };

  // Returns the end of the micro-batches that begin at `leaf` and of which the
  // chunk is assigned, or `leaf` if the chunk of this one is not.
  int EndFrom(int64_t step, int leaf, int chunk) const;

  int64_t generation_ = 0;
  std::deque<Shown> shown_;  // Oldest first.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_SHOWN_ASSIGNMENTS_H_
