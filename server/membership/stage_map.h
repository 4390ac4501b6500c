// The layers and the chunks of each stage of a pipeline.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_STAGE_MAP_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_STAGE_MAP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/stage_assignment.h"

namespace tributary {

// How a pipeline divides a model; see StageParameters. Immutable and
// thread-safe.
class StageMap {
 public:
  using Stages = google::protobuf::RepeatedPtrField<StageParameters>;

  // Checks what a worker says about the segments of a model with `chunk_count`
  // chunks (Ready.segment), of which stages consist. Returns InvalidArgument,
  // with the number of the segment, if they do not divide the layers and the
  // chunks into parts with parameters.
  static absl::StatusOr<StageMap> Create(const Stages& segments,
                                         int chunk_count);

  // Returns the division into stages that begin with these stages of this
  // division: ascending numbers, the first of which is 0.
  StageMap Merge(const std::vector<int>& begins) const;

  const Stages& stages() const { return stages_; }
  // Returns the number of layers of the model.
  int layers() const { return stages_[stages_.size() - 1].layer_end(); }
  // Returns the chunks to which a worker with these stages contributes. The
  // range may be empty, but does not end at 0.
  ChunkRange Contributed(const StageRange& stages) const;

 private:
  StageMap() = default;

  Stages stages_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_STAGE_MAP_H_
