// Lines about the peers that an attempt refuses or removes.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_REFUSALS_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_REFUSALS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// Collects the lines until they are taken for the log, and remembers why the
// last worker was removed. Not thread-safe.
class Refusals {
 public:
  // Adds the line about a worker that is removed. It names the worker and the
  // reason.
  void AddRemoved(const std::string& line);
  // Remembers the line about a worker that leaves, which is not for the log.
  void AddLeft(const std::string& line) { last_ = line; }
  // Adds a line that says that the peer `who` is refused, because it broke the
  // protocol or may not join. `status` states the reason. No effect if `status`
  // means that the peer may join again or that training is complete.
  void AddRefused(const std::string& who, const absl::Status& status);

  // Returns the lines for the log that were added since the last call; at most
  // the first 100.
  std::vector<std::string> Take();
  // Returns the last line of AddRemoved or AddLeft, or an empty text.
  const std::string& last() const { return last_; }

 private:
  void Append(const std::string& line);

  std::vector<std::string> lines_;
  std::string last_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_REFUSALS_H_
