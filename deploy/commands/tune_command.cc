#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/slurm/requeue.h"
#include "deploy/launch/train/launch_record.h"
#include "deploy/launch/train/local_data.h"
#include "deploy/tools/tune/journal/journal_lock.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/study_folder.h"
#include "deploy/tools/tune/trial_job.h"
#include "deploy/tools/tune/tune_actions.h"
#include "deploy/tools/tune/tune_display.h"
#include "deploy/tools/tune/tune_report.h"
#include "deploy/tools/tune/tune_study.h"
#include "deploy/tools/tune/tuner.h"
#include "deploy/tools/tune/tuner_leases.h"
#include "worker/data/cache/cached_data.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

constexpr int64_t kMaxJobBytes = 1 << 20;
constexpr int64_t kRowsOfReport = 20;

struct TuneFlags {
  std::string search;
  std::string output;
  std::string resume;
  std::string import;
  std::string worker_command;
  std::string worker_folder;  // Of the command of a resumed search.
  std::string python = "python3";
  std::string device;
  std::string server_device;
  int64_t parallel = 0;  // 0: not set.
  int64_t workers = 1;
  int64_t servers = 1;
  int64_t threads = 0;  // 0: not set.
  int64_t max_restarts = 10;
  int64_t lease = 60;
  bool overwrite = false;
  bool shared = false;
  bool keep_models = false;
  bool quiet = false;
  std::string data_cache;
  LogFlags log;
};

std::unique_ptr<CommandLine> MakeCommandLine(TuneFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "tune", "SEARCH.textproto",
      "Searches for the best values of fields of a job, such as the learning "
      "rate: trains the job with many values, several at a time, and keeps the "
      "best model. The result is the same for any --parallel, and after "
      "restarts. docs/tune.md describes search files.",
      std::vector<CommandLine::Example>{
          {"tune examples/tune.textproto",
           "Search; the folder that is printed contains the study."},
          {"tune SEARCH.textproto --parallel 4 --output runs/search",
           "Train four trials at the same time."},
          {"tune --resume runs/search",
           "Continue a search that was stopped or killed."},
          {"tune SEARCH.textproto --output /shared/search --shared",
           "Start this on each machine of a cluster."},
          {"tune status runs/search", "Show its trials."},
          {"tune best runs/search --export-job best.textproto",
           "Show the best trial, and write its job."},
          {"tune enqueue runs/search optimizer.adamw.learning_rate=0.001",
           "Try these values next."}});
  line->SetOperand(/*required=*/false, &flags->search);
  line->AddInteger("parallel",
                   "Trials that run at the same time. Default: that of the "
                   "search, else 1.",
                   1, 1000, &flags->parallel);
  line->AddText("output", "DIR",
                "Folder for the study and the runs of its trials. Default: "
                "runs/tune-NAME-TIME.",
                &flags->output);
  line->AddText("resume", "DIR",
                "Continue the study in DIR. SEARCH may be left out.",
                &flags->resume);
  line->AddText("import", "FILE",
                "Begin with the trials of a study in this journal of Optuna.",
                &flags->import);
  AddOverwriteFlag(line.get(), &flags->overwrite);
  line->AddSwitch("shared",
                  "Share the study in --output, or --resume, with other "
                  "processes of 'tributary tune' that have this flag, also on "
                  "other machines with the same file system. The first one "
                  "creates the study.",
                  &flags->shared);
  line->AddInteger("lease",
                   "With --shared: seconds without a sign of life after which "
                   "others take over the trials of a process. Default 60.",
                   1, 86400, &flags->lease);
  line->AddInteger("workers", "Worker processes of each trial. Default 1.", 1,
                   1024, &flags->workers);
  line->AddInteger("servers", "Server processes of each trial. Default 1.", 1,
                   256, &flags->servers);
  line->AddInteger("threads",
                   "Compute threads of each worker. Default: this machine's "
                   "cores divided by the workers of all trials; on a GPU, 2.",
                   1, 1024, &flags->threads);
  line->AddText("worker-command", "COMMAND",
                "Start COMMAND for each worker, as in 'tributary train'. A "
                "resumed search uses the command with which it was started.",
                &flags->worker_command);
  line->AddText("data-cache", "DIR",
                "Folder in which trials share decoded pictures and rows; "
                "'none': each trial decodes its data. Default: a folder of the "
                "study, which is removed when the search is done.",
                &flags->data_cache);
  AddDeviceFlag(line.get(), "auto", &flags->device);
  AddServerDeviceFlag(line.get(), "server-device", &flags->server_device);
  line->AddInteger("max-restarts",
                   "Maximum number of restarts of crashed processes of a "
                   "trial. Default 10.",
                   0, 1000000000, &flags->max_restarts);
  line->AddSwitch("keep-models",
                  "Keep the models and checkpoints of all trials. Default: "
                  "only of the best trial.",
                  &flags->keep_models);
  line->AddText("python", "PROGRAM",
                "Python 3 with the package optuna, for samplers of Optuna. "
                "Default python3.",
                &flags->python);
  AddLogFlags(line.get(), &flags->log);
  line->AddSwitch("quiet", "Show no progress, only the result.", &flags->quiet);
  return line;
}

// Reads the job file of the search; "" for the built-in job.
absl::StatusOr<std::string> ReadJobText(const std::string& search_path,
                                        const SearchSpec& search) {
  if (search.job().empty()) return std::string();
  const bool absolute = search.job()[0] == '/';
  const std::string path =
      absolute ? search.job()
               : absl::StrCat(FolderOf(search_path), "/", search.job());
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxJobBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(search_path, ": job: ", text.status().message()));
  }
  // An empty file is no job, but the built-in one has no text.
  TRIBUTARY_RETURN_IF_ERROR(ParseJob(*text, path).status());
  return text->empty() ? std::string("\n") : *text;
}

// Returns the search without what may change when it is resumed.
std::string Comparable(SearchSpec search) {
  search.clear_name();
  search.clear_parallel();
  return PrintSearch(search);
}

absl::Status CheckSameSearch(const TuneFlags& flags, const TuneStudy& study) {
  if (flags.search.empty()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const SearchSpec search, LoadSearch(flags.search));
  if (Comparable(search) == Comparable(study.search())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flags.search, " differs from the search of ", flags.resume,
      "; leave it out, or begin another study with another --output"));
}

absl::Status CreateStudy(const TuneFlags& flags, const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SearchSpec search, LoadSearch(flags.search));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string job_text,
                             ReadJobText(flags.search, search));
  return TuneStudy::Create(folder, search, job_text, flags.import);
}

// Returns the folder of the study, and checks the flags that choose it.
absl::StatusOr<std::string> ChooseFolder(const TuneFlags& flags) {
  if (!flags.resume.empty()) {
    if (!flags.output.empty() || !flags.import.empty() || flags.overwrite) {
      return absl::InvalidArgumentError(
          "--resume continues the study in its folder; leave out --output, "
          "--import and --overwrite");
    }
    return flags.resume;
  }
  if (flags.search.empty()) {
    return absl::InvalidArgumentError(
        "pass a search file, or --resume DIR (see 'tributary tune --help')");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const SearchSpec search, LoadSearch(flags.search));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string job_text,
                             ReadJobText(flags.search, search));
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, JobToSearch(job_text, search));
  if (!flags.output.empty()) return flags.output;
  if (flags.shared) {
    return absl::InvalidArgumentError(
        "--shared needs --output DIR, the same one for all processes");
  }
  return FreshOutputDirectory("tune-" +
                              (search.has_name() ? search.name() : job.name()));
}

// Checks that the folder contains the study, or nothing that would be lost.
absl::Status CheckFolder(const TuneFlags& flags, const std::string& folder) {
  const bool exists = StudyFolder(folder).Exists();
  if (!flags.resume.empty()) {
    return exists ? absl::OkStatus() : TuneStudy::Open(folder).status();
  }
  const std::vector<std::string> files = StudyFolder(folder).Files();
  std::error_code error;
  for (const std::string& file : files) {
    if (std::filesystem::equivalent(file, flags.search, error) ||
        std::filesystem::equivalent(file, flags.import, error)) {
      return absl::FailedPreconditionError(
          absl::StrCat(file, " would be replaced; choose another --output"));
    }
  }
  if (files.empty() || flags.overwrite) return absl::OkStatus();
  return absl::FailedPreconditionError(
      exists
          ? absl::StrCat(
                folder, " contains a study; continue it with --resume ", folder,
                ", choose another --output, or replace it with "
                "--overwrite")
          : absl::StrCat(files[0],
                         " exists; choose another --output, or replace it "
                         "with --overwrite"));
}

// Returns the value of --device for the workers of each slot: the GPUs in turn.
absl::StatusOr<std::vector<std::string>> ChooseDevices(const TuneFlags& flags,
                                                       int parallel) {
  std::vector<std::string> devices;
  for (int slot = 0; slot < parallel; ++slot) {
    std::string remark;
    TRIBUTARY_ASSIGN_OR_RETURN(const DeviceName device,
                               ChooseDevice(flags.device, slot * flags.workers,
                                            ListedGpus(), &remark));
    // With several workers, each of them chooses.
    devices.push_back(flags.workers > 1 ? DeviceOfAll(flags.device, device)
                                        : FormatDeviceName(device));
  }
  return devices;
}

absl::StatusOr<TunerOptions> MakeOptions(const TuneFlags& flags,
                                         const SearchSpec& search) {
  TunerOptions options;
  options.parallel =
      static_cast<int>(flags.parallel > 0 ? flags.parallel : search.parallel());
  options.workers = flags.workers;
  options.servers = static_cast<int>(flags.servers);
  options.threads = flags.threads;
  options.server_device = flags.server_device;
  options.worker_command = flags.worker_command;
  options.worker_folder = flags.worker_folder;
  options.python = flags.python;
  options.max_restarts = flags.max_restarts;
  options.keep_models = flags.keep_models;
  options.log = flags.log;
  TRIBUTARY_ASSIGN_OR_RETURN(options.devices,
                             ChooseDevices(flags, options.parallel));
  return options;
}

// Remembers the command of the workers, for the time when the search is resumed
// without it.
absl::Status RememberCommand(const std::string& folder, TuneFlags* flags) {
  if (!flags->resume.empty() && flags->worker_command.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const absl::optional<LaunchRecord> record,
                               ReadLaunchRecord(folder));
    if (!record.has_value() || record->worker_command.empty()) {
      return absl::OkStatus();
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckWorkingFolder(folder, *record));
    flags->worker_command = record->worker_command;
    std::error_code error;
    if (!std::filesystem::equivalent(record->working_folder, ".", error)) {
      flags->worker_folder = record->working_folder;
    }
    return absl::OkStatus();
  }
  LaunchRecord record;
  record.worker_command = flags->worker_command;
  std::error_code error;
  record.working_folder = std::filesystem::current_path(error).string();
  record.workers = absl::StrCat(flags->workers);
  record.servers = flags->servers;
  return WriteLaunchRecord(folder, record);
}

// The right of this process to work on a study: alone, or with others.
struct Access {
  std::unique_ptr<OutputDirectory> claimed;  // Alone.
  std::unique_ptr<TunerLeases> leases;       // With others.
};

absl::Status CheckNotShared(const std::string& folder) {
  if (!PathExists(StudyFolder(folder).Tuners())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder,
                   ": processes with --shared may work on this study; add "
                   "--shared, or choose another --output"));
}

// Claims the folder for this process, and creates the study unless it exists.
absl::StatusOr<Access> EnterAlone(const TuneFlags& flags,
                                  const std::string& folder) {
  TRIBUTARY_RETURN_IF_ERROR(CheckFolder(flags, folder));
  TRIBUTARY_RETURN_IF_ERROR(CheckNotShared(folder));
  Access access;
  OutputDirectory::Names names;
  names.resume = "--resume DIR";
  TRIBUTARY_ASSIGN_OR_RETURN(
      access.claimed,
      OutputDirectory::Claim(folder, EarlierRun(flags.resume, flags.overwrite),
                             names));
  // Until now, the first process with --shared may have had the claim.
  TRIBUTARY_RETURN_IF_ERROR(CheckNotShared(folder));
  if (flags.resume.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(CreateStudy(flags, folder));
  }
  return access;
}

// Joins the other processes. The first one creates the study unless it exists.
absl::StatusOr<Access> EnterShared(TuneFlags* flags,
                                   const std::string& folder) {
  if (flags->overwrite) {
    return absl::InvalidArgumentError(
        "--overwrite would replace a study that others may work on; remove "
        "it, or --shared");
  }
  if (!flags->resume.empty() && !StudyFolder(folder).Exists()) {
    return TuneStudy::Open(folder).status();
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FileError(error.value(), "cannot create folder", folder);
  // One process at a time. The file need not exist.
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<JournalLock> lock,
      JournalLock::Acquire(absl::StrCat(folder, "/tuners.enter")));
  // Held until the folder of leases shows that the study is shared.
  Access alone;
  if (!StudyFolder(folder).Exists() ||
      !PathExists(StudyFolder(folder).Tuners())) {
    if (StudyFolder(folder).Exists()) flags->resume = folder;
    // Refused while a process without --shared works on the study.
    TRIBUTARY_ASSIGN_OR_RETURN(alone, EnterAlone(*flags, folder));
  }
  flags->resume = folder;
  Access access;
  TRIBUTARY_ASSIGN_OR_RETURN(access.leases,
                             TunerLeases::Join(StudyFolder(folder).Tuners(),
                                               absl::Seconds(flags->lease)));
  return access;
}

// Returns the folder in which trials share decoded data, as an absolute path
// for workers in other folders; empty if they do not share any.
std::string DataCache(const TuneFlags& flags, const std::string& folder) {
  if (flags.data_cache == "none") return "";
  std::error_code error;
  return std::filesystem::absolute(flags.data_cache.empty()
                                       ? StudyFolder(folder).Decoded()
                                       : flags.data_cache,
                                   error)
      .string();
}

// Checks that this machine has the job's data, and decodes them for all trials
// if that is done as a whole. Empties `data_cache`, after a warning, if decoded
// data cannot be kept there.
absl::Status OpenLocalData(const JobSpec& job, TrainingSources sources,
                           std::string* data_cache) {
  if (data_cache->empty()) return CheckLocalData(job, sources);
  const auto warn = [data_cache](const std::string& message) {
    if (!data_cache->empty()) {
      std::fprintf(stderr, "warning: %s\n", message.c_str());
    }
    data_cache->clear();
  };
  sources.open_data = CacheData(sources.open_data, {*data_cache, warn});
  TRIBUTARY_RETURN_IF_ERROR(CheckLocalData(job, sources));
  // CheckLocalData does not open large data.
  return KeepsAllWhenOpened(job) && !data_cache->empty()
             ? sources.open_data(job).status()
             : absl::OkStatus();
}

int Tune(TuneFlags flags, const Environment& environment,
         const TrainingSources& sources) {
  const absl::StatusOr<std::string> folder = ChooseFolder(flags);
  if (!folder.ok()) return ReportError(folder.status());
  SignalQueue signals(/*with_children=*/true);
  const absl::StatusOr<Access> access =
      flags.shared ? EnterShared(&flags, *folder) : EnterAlone(flags, *folder);
  if (!access.ok()) return ReportError(access.status());
  const absl::StatusOr<std::unique_ptr<TuneStudy>> study =
      TuneStudy::Open(*folder);
  if (!study.ok()) return ReportError(study.status());
  const absl::Status same = CheckSameSearch(flags, **study);
  if (!same.ok()) return ReportError(same);
  const absl::Status remembered = RememberCommand(*folder, &flags);
  if (!remembered.ok()) return ReportError(remembered);
  std::string data_cache = DataCache(flags, *folder);
  // Programs of the user's read data of their own.
  if (flags.worker_command.empty()) {
    const absl::Status readable =
        OpenLocalData((*study)->job(), sources, &data_cache);
    if (!readable.ok()) return ReportError(readable);
  }
  absl::StatusOr<TunerOptions> options = MakeOptions(flags, (*study)->search());
  if (!options.ok()) return ReportError(options.status());
  options->leases = access->leases.get();
  options->data_cache = data_cache;
  TuneEnd end;
  {
    TuneDisplay display(STDERR_FILENO, isatty(STDERR_FILENO) != 0, flags.quiet);
    display.Message(absl::StrCat("searching ", (*study)->name(), ": ",
                                 options->parallel, " at a time; ", *folder));
    end = Tuner(study->get(), *std::move(options), &signals, &display).Run();
  }
  if (absl::IsCancelled(end.status)) {
    std::fprintf(stderr, "%s; continue with: tributary tune --resume %s%s\n",
                 std::string(end.status.message()).c_str(), folder->c_str(),
                 flags.shared ? " --shared" : "");
    // A requeued job runs the same command, which joins a shared study.
    const std::string remark =
        flags.shared ? RequeueStoppedJob(end.signal, environment,
                                         StudyFolder(*folder).Slurm())
                     : "";
    if (!remark.empty()) std::fprintf(stderr, "%s\n", remark.c_str());
    return end.exit_code;
  }
  // Otherwise, other tuners still read the decoded data, or a resumed search
  // does.
  if (flags.data_cache.empty() && (*study)->Done()) {
    std::error_code ignored;
    std::filesystem::remove_all(StudyFolder(*folder).Decoded(), ignored);
  }
  if (!end.status.ok()) return ReportError(end.status, end.exit_code);
  std::printf("%s%s\n%s", FormatStudy(**study, kRowsOfReport).c_str(),
              FormatFinal(**study).c_str(), FormatBest(**study).c_str());
  return kExitDone;
}

}  // namespace

int RunTuneCommand(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources) {
  if (!arguments.empty()) {
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    if (arguments[0] == "status") return RunTuneStatus(rest, environment);
    if (arguments[0] == "best") return RunTuneBest(rest, environment);
    if (arguments[0] == "enqueue") return RunTuneEnqueue(rest, environment);
  }
  TuneFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  return Tune(flags, environment, sources);
}

}  // namespace tributary
