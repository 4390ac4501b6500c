// Reads the newest lines of a run's log and of its events.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_

#include "common/os/untrusted_folder.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns up to `count` of the newest lines of the log of server 0 of the run
// in `folder`, oldest first, as an array of objects with "time", "level" and
// "message". Reads at most the last 256 KiB of the log. Returns an empty array
// if there is no log.
nlohmann::ordered_json NewestLogEntries(const UntrustedFolder& folder,
                                        int count);

// Returns up to `count` of the newest events in events.jsonl of the run in
// `folder`, oldest first, as an array of the JSON objects in the file. Omits
// lines that are not events. Reads at most the last 256 KiB of the file.
// Returns an empty array if there is no file.
nlohmann::ordered_json NewestEvents(const UntrustedFolder& folder, int count);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_
