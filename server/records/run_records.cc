#include "server/records/run_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/event/job_event.h"
#include "common/os/file_system.h"
#include "common/os/read_at.h"

namespace tributary {
namespace {

// Of events.jsonl, Begin reads this much at most.
constexpr int64_t kMaxEventBytes = 1 << 20;
constexpr size_t kMaxKindBytes = 64;
constexpr size_t kMaxRoleBytes = 16;

// Reads up to `count` bytes at `position`.
absl::StatusOr<std::string> ReadAt(int fd, const std::string& path,
                                   int64_t position, int64_t count) {
  std::string data(count, '\0');
  const int64_t size = tributary::ReadAt(fd, position, count, &data[0]);
  if (size < 0) return FileError(errno, "cannot read", path);
  data.resize(size);
  return data;
}

// A part of a file that consists of whole lines.
struct Lines {
  std::string text;
  int64_t next = 0;   // Where the following line begins.
  bool more = false;  // There are further lines.
};

// Reads whole lines at `position` of a file of `size` bytes. Skips a line that
// is too long.
absl::StatusOr<Lines> ReadLines(int fd, const std::string& path, int64_t size,
                                int64_t position) {
  Lines lines;
  TRIBUTARY_ASSIGN_OR_RETURN(
      lines.text, ReadAt(fd, path, position, RunRecords::kMaxLineBytes));
  std::string& text = lines.text;
  const bool full =
      static_cast<int64_t>(text.size()) == RunRecords::kMaxLineBytes;
  size_t end = text.rfind('\n', RunRecords::kReplyBytes - 1);
  if (end == std::string::npos) end = text.find('\n', RunRecords::kReplyBytes);
  if (end != std::string::npos) {
    lines.next = position + static_cast<int64_t>(end) + 1;
    lines.more = full || text.find('\n', end + 1) != std::string::npos;
    text.resize(end + 1);
    return lines;
  }
  text.clear();
  lines.next = position;
  if (!full) return lines;  // The last line is not complete yet.
  for (int64_t at = position + RunRecords::kMaxLineBytes; at < size;
       at += RunRecords::kMaxLineBytes) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string part,
                               ReadAt(fd, path, at, RunRecords::kMaxLineBytes));
    const size_t found = part.find('\n');
    if (found == std::string::npos) continue;
    lines.next = at + static_cast<int64_t>(found) + 1;
    lines.more = true;
    break;
  }
  return lines;
}

absl::StatusOr<Lines> ReadLinesOf(const std::string& path, int64_t position) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "cannot open", path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat facts;
  if (fstat(fd, &facts) != 0) return FileError(errno, "cannot read", path);
  if (position < 0 || position > facts.st_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "position ", position, " is not in metrics.jsonl, which ", "has ",
        facts.st_size, " bytes: request next_position of the previous reply"));
  }
  return ReadLines(fd, path, facts.st_size, position);
}

// Returns the newest events in the file, oldest first. Empty if it cannot be
// read.
std::vector<JobEvent> ReadEvents(const std::string& path) {
  std::vector<JobEvent> events;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return events;
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat facts;
  if (fstat(fd, &facts) != 0) return events;
  const int64_t begin = std::max<int64_t>(0, facts.st_size - kMaxEventBytes);
  const absl::StatusOr<std::string> text =
      ReadAt(fd, path, begin, kMaxEventBytes);
  if (!text.ok()) return events;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::optional<JobEvent> event = ParseEventLine(line);
    if (event.has_value()) events.push_back(*std::move(event));
  }
  return events;
}

// Returns the text without control characters.
std::string OneLine(absl::string_view text) {
  std::string line(text);
  for (char& character : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(character))) {
      character = ' ';
    }
  }
  return line;
}

absl::Status CheckReport(const EventReport& report) {
  const JobEvent& event = report.event();
  const bool letters =
      std::all_of(event.kind().begin(), event.kind().end(), [](char letter) {
        return absl::ascii_islower(static_cast<unsigned char>(letter)) ||
               letter == '_';
      });
  if (report.id() == 0) {
    return absl::InvalidArgumentError(
        "EventReport.id is 0: set it to a random number");
  }
  if (event.kind().empty() || event.kind().size() > kMaxKindBytes || !letters) {
    return absl::InvalidArgumentError(
        absl::StrCat("EventReport.event.kind must have 1 to ", kMaxKindBytes,
                     " characters a-z and _"));
  }
  if (event.message().empty()) {
    return absl::InvalidArgumentError("EventReport.event.message is empty");
  }
  if (event.severity() < JobEvent::INFO || event.severity() > JobEvent::ERROR) {
    return absl::InvalidArgumentError(
        "EventReport.event.severity is not INFO, WARNING or ERROR");
  }
  if (event.role().size() > kMaxRoleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "EventReport.event.role has more than ", kMaxRoleBytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

void RunRecords::Begin(Run run) {
  std::vector<JobEvent> events =
      ReadEvents(absl::StrCat(run.folder, "/events.jsonl"));
  absl::MutexLock lock(&mu_);
  run_ = std::move(run);
  for (JobEvent& event : events) {
    // Releases before 0.4 wrote no ids.
    last_event_ = std::max(last_event_ + 1, event.id());
    event.set_id(last_event_);
    events_.push_back(std::move(event));
    if (events_.size() > kKeptEvents) events_.pop_front();
  }
}

void RunRecords::SetAttempt(int64_t attempt) {
  absl::MutexLock lock(&mu_);
  attempt_ = attempt;
}

JobEvent RunRecords::Add(JobEvent event) {
  event.set_id(++last_event_);
  if (event.attempt() == 0) event.set_attempt(attempt_);
  event.set_time(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  event.set_message(EventMessage(event.message()));
  events_.push_back(event);
  if (events_.size() > kKeptEvents) events_.pop_front();
  return event;
}

JobEvent RunRecords::AddEvent(JobEvent event) {
  absl::MutexLock lock(&mu_);
  return Add(std::move(event));
}

void RunRecords::BeginChange() {
  absl::MutexLock lock(&mu_);
  generation_ = 0;
}

void RunRecords::EndChange(int64_t generation) {
  absl::MutexLock lock(&mu_);
  generation_ = generation;
}

void RunRecords::FillStatus(StatusReply* reply) const {
  absl::MutexLock lock(&mu_);
  reply->set_run_id(run_.id);
  reply->set_name(run_.name);
  const int count =
      std::min<int>(kStatusEvents, static_cast<int>(events_.size()));
  for (auto event = events_.end() - count; event != events_.end(); ++event) {
    *reply->add_event() = *event;
  }
}

void RunRecords::Get(const RecordsRequest& request,
                     std::function<void(absl::StatusOr<RecordsReply>)> done) {
  Executor* reader = nullptr;
  {
    absl::MutexLock lock(&mu_);
    if (pending_ < kMaxPending) {
      ++pending_;
      if (reader_ == nullptr) reader_ = hooks_.make_executor();
      reader = reader_.get();
    }
  }
  if (reader == nullptr) {
    done(absl::ResourceExhaustedError(absl::StrCat(
        kMaxPending, " requests for records wait already: call again later")));
    return;
  }
  reader->Run([this, request, done = std::move(done)] {
    absl::StatusOr<RecordsReply> reply = Read(request);
    {
      absl::MutexLock lock(&mu_);
      --pending_;
    }
    done(std::move(reply));
  });
}

absl::StatusOr<RecordsReply> RunRecords::Read(
    const RecordsRequest& request) const {
  RecordsReply reply;
  std::string path;
  bool same = false;
  {
    absl::MutexLock lock(&mu_);
    const bool same_run = request.run_id() == run_.id;
    same = same_run && request.generation() == generation_;
    reply.set_run_id(run_.id);
    reply.set_generation(generation_);
    if (!same_run) reply.set_job(run_.job);
    for (const JobEvent& event : events_) {
      if (event.id() >= request.first_event()) *reply.add_event() = event;
    }
    path = absl::StrCat(run_.folder, "/metrics.jsonl");
  }
  if (reply.generation() == 0) return reply;
  reply.set_position(same ? request.position() : 0);
  TRIBUTARY_ASSIGN_OR_RETURN(Lines lines, ReadLinesOf(path, reply.position()));
  absl::MutexLock lock(&mu_);
  if (generation_ != reply.generation()) {
    // The lines that were read may be those of the next generation.
    reply.set_generation(0);
    reply.set_position(0);
    return reply;
  }
  reply.set_lines(std::move(lines.text));
  reply.set_next_position(lines.next);
  reply.set_more(lines.more);
  return reply;
}

absl::Status RunRecords::Report(const EventReport& report, int64_t step) {
  TRIBUTARY_RETURN_IF_ERROR(CheckReport(report));
  JobEvent event = report.event();
  event.set_message(OneLine(event.message()));
  event.set_step(step);
  {
    absl::MutexLock lock(&mu_);
    if (std::find(reports_.begin(), reports_.end(), report.id()) !=
        reports_.end()) {
      return absl::OkStatus();
    }
    if (report_count_ == kMaxReports) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMaxReports, " events were reported already"));
    }
    ++report_count_;
    reports_.push_back(report.id());
    if (reports_.size() > kKeptEvents) reports_.pop_front();
    event.clear_attempt();
    event = Add(std::move(event));
  }
  if (hooks_.on_report) hooks_.on_report(event);
  return absl::OkStatus();
}

}  // namespace tributary
