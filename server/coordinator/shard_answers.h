// What servers have reported about their parts of one checkpoint.
#ifndef TRIBUTARY_SERVER_COORDINATOR_SHARD_ANSWERS_H_
#define TRIBUTARY_SERVER_COORDINATOR_SHARD_ANSWERS_H_

#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Collects the servers' reports about a checkpoint. Not thread-safe.
class ShardAnswers {
 public:
  // The servers whose shard is less than `holders` hold chunks.
  ShardAnswers(int servers, int holders)
      : holders_(holders), answered_(servers), missing_(servers) {}

  // Adds a report of a server. Ignores reports after the server's last one.
  // Returns true if this was the last report of all servers.
  bool Add(int shard, const SnapshotReport& report);

  // Returns true if each server has copied the version for the checkpoint, or
  // has already computed a later version.
  bool taken() const { return taken_ == answered_.size(); }
  // Returns true if a server that holds chunks has done so.
  bool taken_by_holder() const { return taken_by_holder_; }
  // Returns true if a server had already computed a later version.
  bool passed() const { return passed_; }
  // Returns the error of a server; empty if there was none.
  const std::string& error() const { return error_; }
  // Returns the files that servers have written, sorted by name.
  std::vector<CheckpointFile> Files() const;

 private:
  void Take(int shard);

  int holders_;
  // Indexed by shard: true if the server has reported that it has written its
  // files, has passed the version, or has failed.
  std::vector<bool> answered_;
  int missing_;
  size_t taken_ = 0;
  bool taken_by_holder_ = false;
  bool passed_ = false;
  std::string error_;
  std::vector<CheckpointFile> files_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_SHARD_ANSWERS_H_
