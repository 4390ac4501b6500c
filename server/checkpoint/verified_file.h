// Reading a file of a checkpoint.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
#define TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor_io/safetensors.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Of the digests: damage is named to within one block, which is also what is
// read at a time.
inline constexpr int64_t kDigestBlockBytes = int64_t{4} << 20;

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
  friend absl::StatusOr<CheckpointFile> DescribeFile(const std::string& folder,
                                                     const std::string& name);

  VerifiedFile(int descriptor, std::string path, const CheckpointFile& facts);

  // Reads the block of this number into block_.
  absl::Status Fetch(int64_t number);
  // The same, unless it is there, and checks it.
  absl::Status Load(int64_t number);
  absl::Status VerifyUpTo(int64_t end);
  absl::Status BlockError(int64_t number, absl::string_view what) const;

  const int descriptor_;
  const std::string path_;
  const CheckpointFile facts_;
  std::vector<char> block_;
  int64_t loaded_ = -1;  // Its number.
};

// What a manifest is to say of a file as it is now.
absl::StatusOr<CheckpointFile> DescribeFile(const std::string& folder,
                                            const std::string& name);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
