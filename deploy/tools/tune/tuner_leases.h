#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_LEASES_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_LEASES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// The leases of the tuners that share a study. The folder `tuners` of the study
// has a file for each tuner, which the tuner changes several times in each
// lease. A tuner whose file has not changed for a whole lease has died, or
// cannot reach the file system, and others may take its trials over.
//
// Only the contents of the files and each tuner's own clock are compared, so
// the clocks of the machines may differ. The files are changed in place,
// because other machines may see a renamed file late on a network file system.
// A thread of its own changes the file. Other methods are not thread-safe.
class TunerLeases {
 public:
  // Creates the folder of the leases (see StudyFolder::Tuners) and this tuner's
  // file. Returns the system's error.
  static absl::StatusOr<std::unique_ptr<TunerLeases>> Join(
      const std::string& folder, absl::Duration lease);
  // Removes this tuner's file.
  ~TunerLeases();
  TunerLeases(const TunerLeases&) = delete;
  TunerLeases& operator=(const TunerLeases&) = delete;

  // Names this tuner. Unique.
  const std::string& id() const { return id_; }
  // Returns true unless the file of this tuner has been the same, or missing,
  // in all calls for the same tuner during a lease. Reads the file a few times
  // in each lease. `now` is the time of a monotonic clock.
  bool IsAlive(const std::string& id, absl::Time now);

 private:
  struct Seen {
    std::string contents;
    absl::Time changed_at;
    absl::Time read_at;
  };

  TunerLeases(std::string folder, std::string id, absl::Duration lease);
  std::string PathOf(const std::string& id) const;
  // Changes this tuner's file.
  absl::Status Renew();
  void KeepRenewing();

  const std::string folder_;
  const std::string id_;
  const absl::Duration lease_;
  int64_t renewals_ = 0;
  std::map<std::string, Seen> seen_;
  absl::Mutex mu_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread renewing_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNER_LEASES_H_
