// The newest entries of the files in which a run says what happened.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns up to `count` of the newest lines of the log of server 0, oldest
// first: objects with "time", "level" and "message". Reads at most the last 256
// KiB. Empty if there is no log.
nlohmann::ordered_json NewestLogEntries(const std::string& folder, int count);

// Returns up to `count` of the newest lines of events.jsonl, oldest first, as
// they are in the file. Leaves out lines that are no events. Reads at most the
// last 256 KiB. Empty if there is no file.
nlohmann::ordered_json NewestEvents(const std::string& folder, int count);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RUN_LOG_H_
