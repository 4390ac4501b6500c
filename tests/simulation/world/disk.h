// The disk that all servers share, as one process sees it.
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

// What is wrong with the disk, for everybody.
struct DiskFault {
  int64_t operations_left = -1;  // Until it begins; -1: nothing is wrong.
  int error_number = 0;
  absl::Time until;  // From its beginning on; the past: one operation only.
};

// Passes calls on. A process that has died has no effect on the disk, and one
// may be made to die in the middle of a call.
class ProcessDisk final : public FileSystem {
 public:
  using Renamed = std::function<void(const std::string& to)>;

  // `renamed` is told of every name that comes to be by Rename or Exchange.
  // All must outlive this object.
  ProcessDisk(EventLoop* loop, FaultyFileSystem* disk, DiskFault* fault,
              std::shared_ptr<Life> life, Renamed renamed)
      : loop_(loop),
        disk_(disk),
        fault_(fault),
        life_(std::move(life)),
        renamed_(std::move(renamed)) {}

  // After so many more calls the process dies.
  void CrashAfter(int64_t calls) { crash_after_ = calls; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Exchange(const std::string& a, const std::string& b) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  class File;

  // The error with which a call fails; counts it.
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
