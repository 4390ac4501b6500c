// The disk that all servers share, as seen by one process.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_DISK_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_DISK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tests/simulation/world/event_loop.h"
#include "tests/support/faulty_file_system.h"

namespace tributary::simulation {

// A fault of the disk, which affects all processes.
struct DiskFault {
  int64_t operations_left = -1;  // Calls until the fault begins; -1: no fault.
  int error_number = 0;
  // End of the fault. A time in the past limits it to one call.
  absl::Time until;
};

// Forwards calls to the shared disk. Calls of a crashed process have no effect.
// The process can be made to crash during a call. The fault affects only
// checkpoints.
class ProcessDisk final : public FileSystem {
 public:
  using Renamed = std::function<void(const std::string& to)>;

  // Calls `renamed` for every name that Rename or Exchange creates. All
  // arguments must outlive this object.
  ProcessDisk(EventLoop* loop, FaultyFileSystem* disk, DiskFault* fault,
              std::shared_ptr<Life> life, Renamed renamed)
      : loop_(loop),
        disk_(disk),
        fault_(fault),
        life_(std::move(life)),
        renamed_(std::move(renamed)) {}

  // Crashes the process after this many more calls.
  void CrashAfter(int64_t calls) { crash_after_ = calls; }

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

  // Counts a call. Returns the error with which the call fails, or OK.
  absl::Status Begin(const std::string& path);

  EventLoop* const loop_;
  FaultyFileSystem* const disk_;
  DiskFault* const fault_;
  const std::shared_ptr<Life> life_;
  const Renamed renamed_;
  int64_t crash_after_ = -1;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_DISK_H_
