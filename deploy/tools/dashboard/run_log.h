// Reads the newest lines of the logs of a run's processes and of its events.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LOG_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LOG_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/os/untrusted_folder.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns the logs of the run in `folder`, sorted by name, as an array of
// objects with "name", such as "server-0.log", "bytes" and "modified" (seconds
// since 1970).
nlohmann::ordered_json LogFiles(const UntrustedFolder& folder);

// Returns the entries of a log, oldest first, as an array of objects with
// "time", "level", "process" and "message". Lines that Logger has not written,
// such as the output of a library or of a crash, form entries of level
// "output", without a time; consecutive ones form one entry.
nlohmann::ordered_json ParseLog(absl::string_view text);

// Returns up to `count` of the newest entries of the log `name`, which must be
// one of LogFiles(folder). Reads at most the last 256 KiB of the log. Returns
// an empty array if there is no such log.
nlohmann::ordered_json NewestLogEntries(const UntrustedFolder& folder,
                                        const std::string& name, int count);

// Returns up to `count` of the newest events in events.jsonl of the run in
// `folder`, oldest first, as an array of the JSON objects in the file. Omits
// lines that are not events. Reads at most the last 256 KiB of the file.
// Returns an empty array if there is no file.
nlohmann::ordered_json NewestEvents(const UntrustedFolder& folder, int count);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LOG_H_
