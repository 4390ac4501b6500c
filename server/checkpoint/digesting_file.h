// A file of a checkpoint that is being written.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_DIGESTING_FILE_H_
#define TRIBUTARY_SERVER_CHECKPOINT_DIGESTING_FILE_H_

#include <xxhash.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {

// A file that computes the digest of each block while it is written.
class DigestingFile {
 public:
  DigestingFile(std::unique_ptr<WritableFile> file, std::string name)
      : file_(std::move(file)), state_(XXH3_createState()) {
    XXH3_64bits_reset(state_.get());
    facts_.set_name(std::move(name));
    facts_.set_block_bytes(kDigestBlockBytes);
  }

  absl::Status Append(absl::string_view bytes) {
    TRIBUTARY_RETURN_IF_ERROR(file_->Append(bytes));
    while (!bytes.empty()) {
      const size_t room =
          kDigestBlockBytes - facts_.bytes() % kDigestBlockBytes;
      const absl::string_view part = bytes.substr(0, room);
      XXH3_64bits_update(state_.get(), part.data(), part.size());
      facts_.set_bytes(facts_.bytes() + static_cast<int64_t>(part.size()));
      if (part.size() == room) EndBlock();
      bytes.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  // Syncs and closes the file.
  absl::StatusOr<CheckpointFile> Finish() {
    if (facts_.bytes() % kDigestBlockBytes != 0) EndBlock();
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("S13"));
    TRIBUTARY_RETURN_IF_ERROR(file_->Sync());
    TRIBUTARY_RETURN_IF_ERROR(file_->Close());
    return std::move(facts_);
  }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  void EndBlock() {
    facts_.add_block_digest(XXH3_64bits_digest(state_.get()));
    XXH3_64bits_reset(state_.get());
  }

  const std::unique_ptr<WritableFile> file_;
  const std::unique_ptr<XXH3_state_t, FreeState> state_;
  CheckpointFile facts_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_DIGESTING_FILE_H_
