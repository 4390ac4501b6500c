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

// The members of a JSON object, such as model.external.config. Members have
// defaults, so that a job states only what differs:
//
//   const int64_t rank = config->Integer("rank", /*fallback=*/8, 1, 1024);
//
// A value that does not fit yields the fallback and is remembered as an error,
// which the caller of a factory returns for it. Not thread-safe.
class Config {
 public:
  // `field` names the object in errors. `json` is the text of a JSON object;
  // other text is an error that status() returns.
  Config(absl::string_view field, absl::string_view json);
  ~Config();
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;

  // Return the member `name`, or `fallback` if there is none. A number must be
  // from `least` to `most`.
  int64_t Integer(absl::string_view name, int64_t fallback, int64_t least,
                  int64_t most);
  double Number(absl::string_view name, double fallback, double least,
                double most);
  bool Flag(absl::string_view name, bool fallback);
  std::string Text(absl::string_view name, absl::string_view fallback);
  std::vector<int64_t> Integers(absl::string_view name,
                                std::vector<int64_t> fallback, int64_t least,
                                int64_t most);

  // The text of the object, for programs that parse it themselves. They need
  // not read the members; all count as read.
  const std::string& json();

  // Returns OK, or InvalidArgument for the first value that does not fit.
  const absl::Status& status() const;
  // Returns status(), or InvalidArgument for a member that was not read, which
  // is usually a typing error.
  absl::Status CheckAllRead() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_CONFIG_H_
