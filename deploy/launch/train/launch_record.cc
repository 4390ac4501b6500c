#include "deploy/launch/train/launch_record.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Command lines have at most 2 MiB on Linux.
constexpr int64_t kMaxRecordBytes = 4 << 20;

std::string RecordPath(const std::string& run) {
  return absl::StrCat(run, "/launch.json");
}

bool IsHarmless(char c) {
  constexpr absl::string_view kHarmless = "/._-+=:,@%";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kHarmless.find(c) != absl::string_view::npos;
}

}  // namespace

absl::Status WriteLaunchRecord(const std::string& run,
                               const LaunchRecord& record) {
  const nlohmann::ordered_json json = {
      {"worker_command", record.worker_command},
      {"working_folder", record.working_folder},
      {"workers", record.workers},
      {"spares", record.spares},
      {"servers", record.servers}};
  // A path may be no valid UTF-8, which JSON cannot contain.
  return WriteFileAtomically(
      RecordPath(run),
      {json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace),
       "\n"});
}

absl::StatusOr<absl::optional<LaunchRecord>> ReadLaunchRecord(
    const std::string& run) {
  const std::string path = RecordPath(run);
  if (!PathExists(path)) return absl::optional<LaunchRecord>();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxRecordBytes));
  const nlohmann::ordered_json json = ParseOrderedJson(text);
  const auto has = [&json](const char* name, bool is_number) {
    const auto found = json.find(name);
    return found != json.end() &&
           (is_number ? found->is_number_integer() : found->is_string());
  };
  if (!json.is_object() || !has("worker_command", false) ||
      !has("working_folder", false) || !has("workers", false) ||
      !has("spares", true) || !has("servers", true)) {
    return absl::DataLossError(absl::StrCat(
        path, ": is damaged; remove it, and pass --workers, --servers and, if ",
        "the run had one, --worker-command"));
  }
  LaunchRecord record;
  record.worker_command = json["worker_command"].get<std::string>();
  record.working_folder = json["working_folder"].get<std::string>();
  record.workers = json["workers"].get<std::string>();
  record.spares = json["spares"].get<int64_t>();
  record.servers = json["servers"].get<int64_t>();
  return absl::optional<LaunchRecord>(record);
}

absl::Status CheckWorkingFolder(const std::string& run,
                                const LaunchRecord& record) {
  std::error_code error;
  if (std::filesystem::is_directory(record.working_folder, error)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      run, ": its workers were started by ", record.worker_command, " in ",
      record.working_folder,
      ", which does not exist here; pass --worker-command COMMAND"));
}

std::string ShellWord(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), IsHarmless)) {
    return text;
  }
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace tributary
