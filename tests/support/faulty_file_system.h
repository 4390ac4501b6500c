// A disk that fails on command and forgets what was not synced, as LevelDB's
// FaultInjectionTestEnv.
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

// Passes calls on to FileSystem::Posix(), for paths below one folder, so that
// whoever reads sees real files; only syncs are not done, which takes long.
// Beside them it keeps, in memory, what a disk would hold after a power cut, by
// the rules of POSIX alone:
//   - the bytes of a file that were synced, whatever its name;
//   - the names in a folder as they were when that folder was synced.
// Nothing else is promised: a file may have lost its name, or a name its bytes,
// and folders do not wait for one another. Thread-safe.
class FaultyFileSystem : public FileSystem {
 public:
  struct Fault {
    // Which call fails: the first one is number 0.
    int64_t operation = 0;
    int error_number = 0;  // EIO, ENOSPC, EROFS, ...
    // All later calls fail too, until Heal: the disk is gone, or the process.
    bool lasting = false;
    // If the call is an Append: it writes so many bytes before it fails.
    int64_t short_write_bytes = 0;
  };
  // What becomes of calls that answer OK without doing their work, as some
  // disks and file systems do.
  struct Lies {
    bool sync = false;
    bool sync_folder = false;
  };

  // What is in `root`, a folder, counts as being on the disk.
  explicit FaultyFileSystem(std::string root);
  ~FaultyFileSystem() override;

  const std::string& root() const { return root_; }

  // The calls so far, those that failed included: "append checkpoints/f". Close
  // counts; the destructor of a file does not.
  std::vector<std::string> Operations() const;

  void SetFault(const Fault& fault);
  // As many bytes as all files together may have; the write that goes beyond is
  // cut short and fails with ENOSPC.
  void SetCapacity(int64_t bytes);
  // What they have now.
  int64_t UsedBytes() const;
  void SetLies(const Lies& lies);
  // No fault, no limit, no lies; the count of calls begins anew.
  void Heal();

  // Power cut and restart: the folder then holds what was on the disk, and no
  // byte or name more. Files that are open are of no use any more.
  void LoseUnsynced();
  // The same, but of what was not synced a random part has reached the disk: of
  // each folder the first few changes of names, of each file a part of its
  // bytes, the end of which may read as zeros.
  void LoseUnsynced(uint64_t seed);

  // Counts what is in the folder now as being on the disk: for tests that
  // change files by other ways.
  void Rescan();

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Exchange(const std::string& a, const std::string& b) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  class File;
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;

  // Counts a call; the error with which it fails, if it does.
  absl::Status Count(const char* what, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null if there is none, or none that this object knows of.
  std::shared_ptr<Node> Find(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets a path name `node`, or nothing if it is null. Changes in one folder
  // are one: either all of them reach the disk or none.
  struct Change {
    std::string path;
    std::shared_ptr<Node> node;
  };
  void Apply(const std::vector<Change>& changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Append(Node* node, absl::string_view bytes, WritableFile* file,
                      const std::string& path);
  absl::Status Sync(Node* node, const std::string& path);
  // `random` null: nothing that was not synced.
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
  // Files opened in another are of before a power cut.
  int64_t power_cuts_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
