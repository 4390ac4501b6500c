// A job file, and, behind a zero byte, an override of one field.
#include <string>

#include "absl/strings/string_view.h"
#include "common/job/job.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

// What was printed is read as the same job.
void CheckPrints(const JobSpec& job) {
  const std::string printed = PrintJob(job);
  const auto again = ParseJob(printed, "printed");
  TRIBUTARY_FUZZ_CHECK(again.ok());
  TRIBUTARY_FUZZ_CHECK(PrintJob(*again) == printed);
}

void Run(absl::string_view text, absl::string_view change) {
  auto job = ParseJob(text, "job.textproto");
  if (!job.ok()) return;
  CheckPrints(*job);
  const JobSpec before = *job;
  if (!SetField(&*job, change).ok()) {
    TRIBUTARY_FUZZ_CHECK(PrintJob(*job) == PrintJob(before));
  }
  if (!ValidateJob(*job).ok()) return;
  const JobSpec resolved = ResolveJob(*job);
  TRIBUTARY_FUZZ_CHECK(ValidateJob(resolved).ok());
  TRIBUTARY_FUZZ_CHECK(PrintJob(ResolveJob(resolved)) == PrintJob(resolved));
  CheckPrints(resolved);
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  tributary::Run(bytes.substr(0, end), end == absl::string_view::npos
                                           ? absl::string_view()
                                           : bytes.substr(end + 1));
  return 0;
}
