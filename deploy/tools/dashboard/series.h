// The values of metrics for charts.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_SERIES_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_SERIES_H_

#include <cstdint>

#include "deploy/tools/dashboard/metrics_index.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns the values of the lines with `from` <= step <= `to` as a JSON object;
// see RunView::Series.
nlohmann::ordered_json SeriesOf(const MetricsIndex& index, int64_t from,
                                int64_t to, int points);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_SERIES_H_
