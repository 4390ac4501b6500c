// Reading a file of a checkpoint.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
#define TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// A file of which nothing is given out that has not the digest that the
// manifest says. Errors are DataLoss and name the file and the byte range, or
// what keeps the system from opening it. One thread at a time; blocks on the
// disk.
class VerifiedFile {
 public:
  // `facts`: what the manifest says of it; its blocks are what one read takes
  // in memory.
  static absl::StatusOr<std::unique_ptr<VerifiedFile>> Open(
      const std::string& folder, const CheckpointFile& facts);
  ~VerifiedFile();
  VerifiedFile(const VerifiedFile&) = delete;
  VerifiedFile& operator=(const VerifiedFile&) = delete;

  // Copies bytes [begin, begin + count), which the file has. Each block is read
  // once if calls come in ascending order.
  absl::Status Read(int64_t begin, int64_t count, char* to);

  absl::Status VerifyAll();

  // What the header says of the tensors; its bytes have their digests.
  absl::StatusOr<SafetensorsFile> OpenTensors();

  const std::string& path() const { return path_; }

 private:
  VerifiedFile(int descriptor, std::string path, const CheckpointFile& facts);

  // Reads the block of this number into block_, unless it is there.
  absl::Status Load(int64_t number);
  absl::Status VerifyUpTo(int64_t end);

  const int descriptor_;
  const std::string path_;
  const CheckpointFile facts_;
  std::vector<char> block_;
  int64_t loaded_ = -1;  // Its number.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
