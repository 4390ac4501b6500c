#include "server/membership/refusals.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"

namespace tributary {
namespace {

// A worker that is restarted in a loop would otherwise fill the memory.
constexpr size_t kMostLines = 100;

}  // namespace

void Refusals::AddRemoved(const std::string& line) {
  last_ = line;
  Append(line);
}

void Refusals::AddRefused(const std::string& who, const absl::Status& status) {
  // A worker that is told to join again, or that the job is done, is none.
  if (IsTransient(status) || absl::IsOutOfRange(status)) return;
  Append(absl::StrCat(who, " is refused: ", status.message()));
}

std::vector<std::string> Refusals::Take() { return std::exchange(lines_, {}); }

void Refusals::Append(const std::string& line) {
  if (lines_.size() < kMostLines) lines_.push_back(line);
}

}  // namespace tributary
