// The metrics of a run as comma-separated values, for spreadsheets.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_CSV_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_CSV_H_

#include <string>
#include <vector>

#include "deploy/tools/dashboard/metrics_index.h"

namespace tributary {

// Returns a heading, and a row for each line: the step, and the fields of
// MetricsIndex with which charts are drawn. A field that a line does not have
// is empty.
std::string MetricsCsv(const std::vector<MetricsIndex::Line>& lines);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_CSV_H_
