// Replies to GetRecords, as the dashboard applies them. Input: replies, each as
// text, separated by lines of "--".
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "common/os/untrusted_folder.h"
#include "deploy/tools/dashboard/metrics_index.h"
#include "deploy/tools/dashboard/records_copy.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

std::string Lines(const RecordsCopy& copy) {
  const absl::StatusOr<InputFile> file = copy.OpenLines();
  return file.ok() ? file->Read(/*offset=*/0, file->facts().bytes) : "";
}

void Run(const std::string& bytes) {
  RecordsCopy copy;
  MetricsIndex index([&copy] { return copy.OpenLines(); });
  google::protobuf::TextFormat::Parser parser;
  // Without messages about each malformed input.
  class Silent : public google::protobuf::io::ErrorCollector {
   public:
    void AddError(int, int, const std::string&) override {}
  } silent;
  parser.RecordErrorsTo(&silent);
  const std::vector<std::string> parts = absl::StrSplit(bytes, "\n--\n");
  for (const std::string& part : parts) {
    RecordsReply reply;
    if (!parser.ParseFromString(part, &reply)) continue;
    const RecordsRequest before = copy.NextRequest();
    const std::string lines = Lines(copy);
    const bool applied = copy.Apply(reply).ok();
    index.Update();
    const RecordsRequest after = copy.NextRequest();
    TRIBUTARY_FUZZ_CHECK(copy.events().size() <= RecordsCopy::kKeptEvents);
    TRIBUTARY_FUZZ_CHECK(after.position() >= 0);
    const std::string now = Lines(copy);
    TRIBUTARY_FUZZ_CHECK(now.empty() || now.back() == '\n');
    const bool same = before.run_id() == after.run_id() &&
                      before.generation() == after.generation();
    if (same) {
      TRIBUTARY_FUZZ_CHECK(after.position() >= before.position());
      TRIBUTARY_FUZZ_CHECK(now == lines + (applied && reply.generation() != 0
                                               ? reply.lines()
                                               : std::string()));
      // A caller that fetches while there are more lines makes progress.
      TRIBUTARY_FUZZ_CHECK(!applied || !reply.more() ||
                           after.position() > before.position());
    }
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
