// What a comparison says to people and to scripts.
#ifndef TRIBUTARY_DEPLOY_COMPARE_COMPARISON_REPORT_H_
#define TRIBUTARY_DEPLOY_COMPARE_COMPARISON_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "deploy/compare/comparison.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// One row for each run: time, where it goes, bytes, memory and loss. Markdown
// whose columns stand below each other, so that it is read as it is, too.
std::string ComparisonTable(const Comparison& comparison);

// The whole report, in Markdown: the picture, that table, what is to be known
// about it, processes, hosts, and what did not run.
std::string ComparisonMarkdown(const Comparison& comparison);

// All figures. Keys are always there; null: not known, or not finite.
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// compare.md, compare.json and compare.svg in the folder.
absl::Status WriteComparison(const Comparison& comparison,
                             const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_REPORT_H_
