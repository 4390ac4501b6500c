// Lines of events.jsonl.
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/event/job_event.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes) {
  const std::optional<JobEvent> event = ParseEventLine(bytes);
  if (!event.has_value()) return;
  TRIBUTARY_FUZZ_CHECK(!event->kind().empty() && !event->message().empty());
  // A written line can be read, and is written in the same way again.
  const std::string line = EventLine(*event);
  TRIBUTARY_FUZZ_CHECK(line.find('\n') == std::string::npos);
  const std::optional<JobEvent> again = ParseEventLine(line);
  TRIBUTARY_FUZZ_CHECK(again.has_value());
  TRIBUTARY_FUZZ_CHECK(again->kind() == event->kind());
  TRIBUTARY_FUZZ_CHECK(again->id() == event->id());
  TRIBUTARY_FUZZ_CHECK(again->severity() == event->severity());
  TRIBUTARY_FUZZ_CHECK(EventLine(*again) == line);
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
