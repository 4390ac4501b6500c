// Reads a file of a checkpoint and verifies its digests.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
#define TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor_io/safetensors_file.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Size in bytes of a block in new checkpoints; for an existing checkpoint, the
// manifest states the size. The manifest has one digest for each block of a
// file. Files are read one block at a time, and errors name the block that
// contains a damaged byte.
inline constexpr int64_t kDigestBlockBytes = int64_t{4} << 20;

// A file of a checkpoint. The methods compare bytes with the digests in the
// manifest before they return the bytes. For damaged bytes they return
// DataLoss, naming the file and the byte range. Not thread-safe; blocks on the
// disk.
class VerifiedFile {
 public:
  // Opens the file that `facts`, an entry of the manifest, describes. Returns
  // DataLoss if the file is missing or has a different size, and the system's
  // error if it cannot be opened. The object uses as much memory as one block
  // of the file.
  static absl::StatusOr<std::unique_ptr<VerifiedFile>> Open(
      const std::string& folder, const CheckpointFile& facts);
  ~VerifiedFile();
  VerifiedFile(const VerifiedFile&) = delete;
  VerifiedFile& operator=(const VerifiedFile&) = delete;

  // Copies bytes [begin, begin + count), which must lie in the file, to `to`.
  // Reads each block once if calls come in ascending order.
  absl::Status Read(int64_t begin, int64_t count, char* to);

  // Reads all blocks of the file and compares them with their digests.
  absl::Status VerifyAll();

  // Verifies the header of the file, which must be a safetensors file, and
  // returns a SafetensorsFile that lists the tensors. Data read through the
  // SafetensorsFile are not verified. To read verified data of a tensor, call
  // Read with data_offset() plus the tensor's `begin`.
  absl::StatusOr<SafetensorsFile> OpenTensors();

  const std::string& path() const { return path_; }

 private:
  friend absl::StatusOr<CheckpointFile> DescribeFile(const std::string& folder,
                                                     const std::string& name);

  VerifiedFile(int descriptor, std::string path, const CheckpointFile& facts);

  // Reads block `number` into block_ without verifying it.
  absl::Status Fetch(int64_t number);
  // Reads block `number` into block_ and verifies it, unless it is already
  // there.
  absl::Status Load(int64_t number);
  absl::Status VerifyUpTo(int64_t end);
  absl::Status BlockError(int64_t number, absl::string_view what) const;

  const int descriptor_;
  const std::string path_;
  const CheckpointFile facts_;
  std::vector<char> block_;
  int64_t loaded_ = -1;  // Number of the verified block in block_, or -1.
};

// Reads the file `name` in `folder`, and returns an entry for a manifest with
// the digests of its current contents. Returns the system's error if the file
// cannot be opened, and DataLoss, naming the byte range, if reading fails. Both
// errors name the path.
absl::StatusOr<CheckpointFile> DescribeFile(const std::string& folder,
                                            const std::string& name);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_VERIFIED_FILE_H_
