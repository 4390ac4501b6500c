// A file system that fails on request and loses data that was not synced, like
// LevelDB's FaultInjectionTestEnv.
#ifndef TRIBUTARY_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
#define TRIBUTARY_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "common/os/file_system.h"

namespace tributary {

// Forwards calls on paths below one folder to FileSystem::Posix(), so that
// readers see real files. Syncs are not forwarded because they are slow. Keeps
// in memory what a power failure would leave on the disk, by the rules of POSIX
// alone:
// - the synced bytes of a file, whatever its name;
// - the names in a folder at the time when that folder was synced.
// Nothing else is guaranteed. For example, a power failure may remove the name
// of a file whose bytes were synced, or the bytes of a file whose name was
// synced. Thread-safe.
class FaultyFileSystem : public FileSystem {
 public:
  struct Fault {
    // Number of the call that fails, counted from 0.
    int64_t operation = 0;
    int error_number = 0;  // EIO, ENOSPC, EROFS, ...
    // True if all later calls also fail, until Heal, as on a lost disk.
    bool lasting = false;
    // If the call is an Append: number of bytes that it writes before it fails.
    int64_t short_write_bytes = 0;
  };
  // The calls that return OK without doing their work, as on some disks and
  // file systems.
  struct Lies {
    bool sync = false;
    bool sync_folder = false;
  };

  // Treats the contents of the folder `root` as being on disk.
  explicit FaultyFileSystem(std::string root);
  ~FaultyFileSystem() override;

  const std::string& root() const { return root_; }

  // Returns the calls so far, including failed ones, each with its path within
  // root(), such as "append /checkpoints/f". Close counts as a call; the
  // destructor of a file does not.
  std::vector<std::string> Operations() const;

  void SetFault(const Fault& fault);
  // Limits the total size of all files. A write beyond it is truncated and
  // fails with ENOSPC.
  void SetCapacity(int64_t bytes);
  // Returns the total size of all files, in bytes.
  int64_t UsedBytes() const;
  void SetLies(const Lies& lies);
  // Removes faults, the size limit and lies, and restarts the count of calls.
  void Heal();

  // Simulates a power failure and a restart: reduces the folder to what was on
  // disk. Open files become unusable.
  void LoseUnsynced();
  // Like LoseUnsynced(), but a random part of the unsynced data has reached the
  // disk: for each folder, a prefix of the changes of its names; for each file,
  // a prefix of its bytes, the end of which may read as zeros.
  void LoseUnsynced(uint64_t seed);

  // Treats the current contents of the folder as being on disk, for tests that
  // change files directly.
  void Rescan();

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status Exchange(const std::string& a, const std::string& b) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  class File;
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;

  // Counts a call. Returns the error with which the call fails, or OK.
  absl::Status Count(const char* what, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns null if the path does not exist or is unknown to this object.
  std::shared_ptr<Node> Find(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A change of a name: `path` now refers to `node`, or no longer exists if
  // `node` is null.
  struct Change {
    std::string path;
    std::shared_ptr<Node> node;
  };
  // Applies the changes in memory. Those in one folder are atomic: a power
  // failure preserves all or none of them.
  void Apply(const std::vector<Change>& changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Append(Node* node, absl::string_view bytes, WritableFile* file,
                      const std::string& path);
  absl::Status Sync(Node* node, const std::string& path);
  // Simulates a power failure. Loses all unsynced data if `random` is null, and
  // otherwise a random part of it.
  void CutPower(std::mt19937_64* random);

  const std::string root_;
  FileSystem* const posix_;
  mutable absl::Mutex mu_;
  std::shared_ptr<Node> tree_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> operations_ ABSL_GUARDED_BY(mu_);
  absl::optional<Fault> fault_ ABSL_GUARDED_BY(mu_);
  Lies lies_ ABSL_GUARDED_BY(mu_);
  int64_t capacity_bytes_ ABSL_GUARDED_BY(mu_) =
      std::numeric_limits<int64_t>::max();
  // Number of power failures. Files opened before the last one are unusable.
  int64_t power_cuts_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
