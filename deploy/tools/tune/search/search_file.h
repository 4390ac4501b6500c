// Reads and validates search files; proto/search.proto documents the fields.
//
// All functions are thread-safe and depend only on their arguments, except
// LoadSearch. All errors are InvalidArgument (exit code 2) with a message that
// states which part of the search file to change, and how.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_FILE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/search.pb.h"

namespace tributary {

// Parses protobuf text. The message of an error begins with `file_name` and, if
// the error has a position, line and column.
absl::StatusOr<SearchSpec> ParseSearch(absl::string_view text,
                                       absl::string_view file_name);

// Reads, parses and validates a search file. The message of an error begins
// with the path.
absl::StatusOr<SearchSpec> LoadSearch(const std::string& path);

// Returns InvalidArgument, naming the field, for the first mistake. Does not
// check what depends on the job: whether paths exist, and the steps of rungs.
absl::Status ValidateSearch(const SearchSpec& search);

// Returns the search as protobuf text, from which ParseSearch restores it.
std::string PrintSearch(const SearchSpec& search);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_FILE_H_
