// The configuration that a job passes to an external model or data set.
#ifndef TRIBUTARY_COMMON_JOB_CONFIG_H_
#define TRIBUTARY_COMMON_JOB_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Reads the members of a JSON object, such as model.external.config of a job.
// Members have defaults, so that a job file contains only the members with
// other values:
//
//   const int64_t rank = config->Integer("rank", /*fallback=*/8, 1, 1024);
//
// A value of the wrong type or out of range yields the fallback. The first such
// value is recorded as an error. A function that creates an object from a
// Config, such as a model, need not check for errors: its caller calls status()
// and CheckAllRead(). Not thread-safe.
class Config {
 public:
  // `field` is the name of the object in error messages. `json` is the text of
  // a JSON object; if it is any other text, status() returns an error.
  Config(absl::string_view field, absl::string_view json);
  ~Config();
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;

  // These methods return the member `name`, or `fallback` if the object has no
  // such member. Numbers must be in [least, most].
  int64_t Integer(absl::string_view name, int64_t fallback, int64_t least,
                  int64_t most);
  double Number(absl::string_view name, double fallback, double least,
                double most);
  bool Flag(absl::string_view name, bool fallback);
  std::string Text(absl::string_view name, absl::string_view fallback);
  std::vector<int64_t> Integers(absl::string_view name,
                                std::vector<int64_t> fallback, int64_t least,
                                int64_t most);

  // Returns the text of the JSON object, for callers that parse it themselves.
  // Marks all members as read, so that CheckAllRead accepts them.
  const std::string& json();

  // Returns InvalidArgument, naming the member, if a member that was read had
  // the wrong type or was out of range; reports the first such member.
  // Otherwise returns OK.
  const absl::Status& status() const;
  // Returns status() if it is an error. Otherwise returns InvalidArgument if
  // the object has a member that no method has read, which usually means that
  // its name is misspelled.
  absl::Status CheckAllRead() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_CONFIG_H_
