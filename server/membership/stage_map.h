// The layers and the chunks of each stage of a pipeline.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_STAGE_MAP_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_STAGE_MAP_H_

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

  // Checks a worker's proposal, Ready.stage, for a model with `chunk_count`
  // chunks. Returns InvalidArgument, with the number of the stage, if it does
  // not divide the layers and the chunks into `stages` stages.
  static absl::StatusOr<StageMap> Create(int stages, const Stages& proposal,
                                         int chunk_count);

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
