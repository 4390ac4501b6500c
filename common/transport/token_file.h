// A file with the job's tokens, which is read again when it changes.
#ifndef TRIBUTARY_COMMON_TRANSPORT_TOKEN_FILE_H_
#define TRIBUTARY_COMMON_TRANSPORT_TOKEN_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/pulse.h"

namespace tributary {

// Interval at which the files with credentials are checked for changes. New
// connections use a changed file after the next check.
inline constexpr absl::Duration kReloadInterval = absl::Seconds(1);

// Holds the tokens of a file with one token on each line. A process sends the
// first token, and accepts all of them, so that a token can be replaced while
// the job runs: processes that read the file at different times accept each
// other. Thread-safe. Has a thread that reads the file every kReloadInterval; a
// version of the file that cannot be read or used is ignored.
class TokenFile {
 public:
  // Largest number of tokens in a file.
  static constexpr int kMostTokens = 4;

  // Returns NotFound if the file does not exist, InvalidArgument if it does not
  // hold 1 to kMostTokens tokens, and the system's error if it cannot be read.
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Open(
      const std::string& path);

  // Returns the newest tokens, in the order of the lines; at least one.
  std::vector<std::string> tokens() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  TokenFile(const std::string& path, std::vector<std::string> tokens);
  void Reload() ABSL_LOCKS_EXCLUDED(mu_);

  const std::string path_;
  mutable absl::Mutex mu_;
  std::vector<std::string> tokens_ ABSL_GUARDED_BY(mu_);
  // Declared last: the thread of the Pulse uses the other members, so it must
  // start after they are initialized and stop before they are destroyed.
  Pulse pulse_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_TOKEN_FILE_H_
