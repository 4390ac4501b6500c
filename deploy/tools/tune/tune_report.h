// Describes a study to the user.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_REPORT_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_REPORT_H_

#include <cstdint>
#include <string>

#include "deploy/tools/tune/tune_study.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Returns the values of a trial as "path=value path=value", for reading:
// numbers have four digits.
std::string PointText(const TuneStudy& study, int64_t trial);
// Returns a number with six digits.
std::string ValueText(double value);
// Returns "evaluation.loss 2.1034" for the last result of the trial, with all
// objectives.
std::string ResultText(const TuneStudy& study, const TrialResult& result);

// Returns a table of the trials, the best ones first, and of the rungs, with at
// most `rows` trials.
std::string FormatStudy(const TuneStudy& study, int64_t rows);
// Returns a table of the trials of the final evaluation, the best ones first;
// empty if it has not begun.
std::string FormatFinal(const TuneStudy& study);
// Returns the best trials, a paragraph each; with one objective, there is at
// most one.
std::string FormatBest(const TuneStudy& study);
// Returns all of it for scripts.
nlohmann::ordered_json StudyJson(const TuneStudy& study);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_REPORT_H_
