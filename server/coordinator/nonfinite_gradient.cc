#include "server/coordinator/nonfinite_gradient.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

const std::string& ParameterOf(const JobProgress::NonfiniteGradient& gradient,
                               const ArenaLayout& layout) {
  const int64_t element =
      layout.ChunkBegin(gradient.place.chunk()) + gradient.place.element();
  return layout.ParameterAt(element).name;
}

// Returns the worker that sent the gradient. Returns null if the worker has
// left, or if only the sum over all workers is not finite.
const Member* ContributorOf(const JobProgress::NonfiniteGradient& gradient,
                            const Membership& membership) {
  const auto found = membership.members().find(gradient.place.contributor());
  return found == membership.members().end() ? nullptr : &found->second;
}

}  // namespace

absl::Status NonfiniteError(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership) {
  const Member* const member = ContributorOf(gradient, membership);
  const std::string whose = gradient.place.contributor() == 0
                                ? "the sum over all workers"
                            : member == nullptr ? "a worker that has left"
                                                : member->Name();
  return absl::AbortedError(absl::StrCat(
      "step ", gradient.step + 1, ": the gradient of ",
      ParameterOf(gradient, layout), " is not finite, from ", whose,
      ": lower the learning rate, set clip_norm, or look at the data; "
      "on_nonfinite: SKIP leaves such steps out"));
}

std::string SkippedStepLine(const JobProgress::NonfiniteGradient& gradient,
                            const ArenaLayout& layout,
                            const Membership& membership) {
  nlohmann::ordered_json line = {{"step", gradient.step + 1},
                                 {"skipped", "gradient is not finite"},
                                 {"parameter", ParameterOf(gradient, layout)}};
  const Member* const member = ContributorOf(gradient, membership);
  if (member != nullptr) line["worker"] = member->rank;
  return line.dump();
}

}  // namespace tributary
