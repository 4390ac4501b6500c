// The report of a comparison for users and for scripts.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_REPORT_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "deploy/tools/compare/comparison.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns a table with one row per run: the step time and its components,
// bytes, memory and loss. The table is Markdown with aligned columns, readable
// as plain text.
std::string ComparisonTable(const Comparison& comparison);

// Returns a line on the bubble of each pipeline that is done.
std::string BubbleLines(const Comparison& comparison);

// Returns a line on what the primary of a run in one process carries, compared
// with the other devices. Returns an empty string without such a run.
std::string PrimaryLines(const Comparison& comparison);

// Returns the whole report of a comparison in Markdown: the picture, the table
// with notes, processes, hosts, and the exchanges that did not run.
std::string ComparisonMarkdown(const Comparison& comparison);

// Returns all figures of a comparison as JSON. All keys are always present; the
// value null means unknown or not finite.
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// Writes compare.md, compare.json and compare.svg to `folder`. Returns the
// error of the first file that cannot be written, with its path.
absl::Status WriteComparison(const Comparison& comparison,
                             const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_REPORT_H_
