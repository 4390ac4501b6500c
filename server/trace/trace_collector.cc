#include "server/trace/trace_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Clocks count from an arbitrary time, but no time is more than 100 years from
// it, so that sums of two times cannot overflow.
constexpr int64_t kMostNanos = int64_t{100} * 366 * 86400 * 1000000000;

absl::Status Error(const TracedName& process, absl::string_view what,
                   int64_t value, int64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat("trace of ", process.role, " ", process.number, ": ", what,
                   " is ", value, ", expected from 0 to ", most));
}

absl::Status CheckTexts(
    const TracedName& process, absl::string_view what,
    const google::protobuf::RepeatedPtrField<std::string>& texts, int most) {
  if (texts.size() > most) {
    return Error(process, absl::StrCat("the number of ", what), texts.size(),
                 most);
  }
  for (const std::string& text : texts) {
    if (text.size() > TraceCollector::kMostTextBytes) {
      return Error(process, absl::StrCat("the length of one of the ", what),
                   static_cast<int64_t>(text.size()),
                   TraceCollector::kMostTextBytes);
    }
  }
  return absl::OkStatus();
}

bool Within(int64_t value, int64_t limit) {
  return value >= -limit && value <= limit;
}

absl::Status CheckRecord(const TracedName& process, const TraceRecords& all,
                         const TraceRecords::Record& record) {
  if (record.kind() == TraceRecords::Record::SPAN &&
      (record.name() < 0 || record.name() >= all.name_size())) {
    return Error(process, "name", record.name(), all.name_size() - 1);
  }
  if (record.track() < 0 || record.track() >= all.track_size()) {
    return Error(process, "track", record.track(), all.track_size() - 1);
  }
  if (!Within(record.begin_ns(), kMostNanos)) {
    return Error(process, "begin_ns", record.begin_ns(), kMostNanos);
  }
  if (record.duration_ns() < 0 || record.duration_ns() > kMostNanos) {
    return Error(process, "duration_ns", record.duration_ns(), kMostNanos);
  }
  return absl::OkStatus();
}

}  // namespace

TraceCollector::Entry* TraceCollector::Find(const TracedName& process) {
  const auto found = processes_.find(process);
  if (found != processes_.end()) return &found->second;
  if (processes_.size() >= kMostProcesses) return nullptr;
  Entry& entry = processes_[process];
  entry.traced.process = process;
  return &entry;
}

void TraceCollector::Expect(const TracedName& process) { Find(process); }

absl::Status TraceCollector::Add(const TracedName& process,
                                 const TraceRecords& records) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckTexts(process, "names", records.name(), kMostNames));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckTexts(process, "tracks", records.track(), kMostTracks));
  for (const TraceRecords::Record& record : records.record()) {
    TRIBUTARY_RETURN_IF_ERROR(CheckRecord(process, records, record));
  }
  if (!Within(records.offset_ns(), kMostNanos)) {
    return Error(process, "offset_ns", records.offset_ns(), kMostNanos);
  }
  Entry* const entry = Find(process);
  if (entry == nullptr) return absl::OkStatus();
  TracedProcess& traced = entry->traced;
  // A process only appends to its lists. Earlier records refer to them.
  const auto shortened = [&process](absl::string_view what, int now,
                                    const std::vector<std::string>& before) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trace of ", process.role, " ", process.number, ": has ", now, " ",
        what, ", expected at least ", before.size(), ", as before"));
  };
  if (static_cast<size_t>(records.name_size()) < traced.names.size()) {
    return shortened("names", records.name_size(), traced.names);
  }
  if (static_cast<size_t>(records.track_size()) < traced.tracks.size()) {
    return shortened("tracks", records.track_size(), traced.tracks);
  }
  traced.names.assign(records.name().begin(), records.name().end());
  traced.tracks.assign(records.track().begin(), records.track().end());
  traced.offset_ns = records.offset_ns();
  traced.offset_error_ns = std::max<int64_t>(records.offset_error_ns(), 0);
  for (const TraceRecords::Record& record : records.record()) {
    if (static_cast<int64_t>(traced.records.size()) >= kMostRecords ||
        records_ >= kMostRecordsOfAll) {
      ++traced.refused;
      continue;
    }
    traced.records.push_back(record);
    ++records_;
  }
  // `dropped` of the message is a total.
  traced.dropped = std::max(traced.dropped, records.dropped());
  traced.complete = traced.complete || records.last();
  return absl::OkStatus();
}

bool TraceCollector::complete() const {
  return records_ > 0 && std::all_of(processes_.begin(), processes_.end(),
                                     [](const auto& process) {
                                       return process.second.traced.complete ||
                                              process.second.lost;
                                     });
}

void TraceCollector::Lose(const TracedName& process) {
  const auto found = processes_.find(process);
  if (found != processes_.end()) found->second.lost = true;
}

std::vector<TracedProcess> TraceCollector::Take() {
  std::vector<TracedProcess> taken;
  for (auto& [name, entry] : processes_) {
    taken.push_back(std::move(entry.traced));
  }
  processes_.clear();
  records_ = 0;
  return taken;
}

}  // namespace tributary
