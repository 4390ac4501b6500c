#include "server/trace/trace_file.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/file.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;
using Record = TraceRecords::Record;

// A span or an arrow on the coordinator's clock.
struct Event {
  const Record* record = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int thread = 0;
};

// Spans of one thread, which are disjoint or nested.
class Row {
 public:
  // Adds the span if it is disjoint from all others or nested in one of them.
  // Spans must be added in the order of their beginnings, longer ones first.
  bool Add(const Event& span) {
    while (!open_.empty() && open_.back().end <= span.begin) open_.pop_back();
    if (!open_.empty()) {
      const Event& outer = open_.back();
      const int a = outer.record->chunk();
      const int b = span.record->chunk();
      if (span.end > outer.end || (a >= 0 && b >= 0 && a != b)) return false;
    }
    open_.push_back(span);
    return true;
  }

 private:
  std::vector<Event> open_;  // Each is nested in the one before.
};

// Distributes the spans of one track over threads, numbered from `first`.
// Returns the number of threads, at least 1.
int AssignThreads(int first, std::vector<Event*> spans) {
  std::stable_sort(
      spans.begin(), spans.end(), [](const Event* a, const Event* b) {
        return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
      });
  std::vector<Row> rows(1);
  for (Event* const span : spans) {
    size_t row = 0;
    while (!rows[row].Add(*span)) {
      if (++row == rows.size()) rows.emplace_back();
    }
    span->thread = first + static_cast<int>(row);
  }
  return static_cast<int>(rows.size());
}

// The events of one process.
struct Shown {
  int pid = 0;
  std::string name;
  const TracedProcess* traced = nullptr;
  std::vector<Event> spans;
  std::vector<Event> arrows;  // Ends of arrows that lie in a span.
  std::vector<std::string> threads;
};

// Places each end of an arrow on the thread of the span that contains it.
void PlaceArrows(const std::map<std::pair<int, int>, std::vector<Event*>>& by,
                 Shown* shown) {
  std::vector<Event> placed;
  for (Event& arrow : shown->arrows) {
    const auto found = by.find({arrow.record->track(), arrow.record->chunk()});
    if (found == by.end()) continue;
    for (const Event* const span : found->second) {
      if (span->begin > arrow.begin || span->end < arrow.begin) continue;
      arrow.thread = span->thread;
      placed.push_back(arrow);
      break;
    }
  }
  shown->arrows = std::move(placed);
}

Shown Arrange(int pid, int64_t attempt, int64_t attempts,
              const TracedProcess& traced) {
  Shown shown;
  shown.pid = pid;
  shown.name = absl::StrCat(traced.process.role, " ", traced.process.number);
  if (attempts > 1) absl::StrAppend(&shown.name, ", attempt ", attempt);
  shown.traced = &traced;
  for (const Record& record : traced.records) {
    const int64_t begin = record.begin_ns() + traced.offset_ns;
    Event event = {&record, begin, begin + record.duration_ns()};
    (record.kind() == Record::SPAN ? shown.spans : shown.arrows)
        .push_back(event);
  }
  std::map<int, std::vector<Event*>> tracks;
  std::map<std::pair<int, int>, std::vector<Event*>> by_chunk;
  for (Event& span : shown.spans) {
    const int track = span.record->track();
    tracks[track].push_back(&span);
    by_chunk[{track, span.record->chunk()}].push_back(&span);
  }
  for (const auto& [track, spans] : tracks) {
    const int first = static_cast<int>(shown.threads.size());
    const int threads = AssignThreads(first, spans);
    const std::string& name = traced.tracks[track];
    for (int i = 0; i < threads; ++i) {
      shown.threads.push_back(i == 0 ? name : absl::StrCat(name, " ", i + 1));
    }
  }
  PlaceArrows(by_chunk, &shown);
  return shown;
}

// Several workers have the same name if a worker replaced another one.
void DistinguishNames(std::vector<Shown>* shown) {
  std::map<std::string, int> count;
  for (const Shown& process : *shown) ++count[process.name];
  for (Shown& process : *shown) {
    if (count[process.name] < 2) continue;
    absl::StrAppend(&process.name, ", incarnation ",
                    process.traced->process.incarnation);
  }
}

// Returns a time in microseconds, with nanoseconds as decimals.
std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
}

std::string ArgumentsOf(const Record& record) {
  std::string text = "{";
  const auto add = [&text](const char* name, int64_t value) {
    if (value < 0) return;
    absl::StrAppend(&text, text.size() > 1 ? "," : "", "\"", name,
                    "\":", value);
  };
  add("step", record.step());
  add("chunk", record.chunk());
  add("micro_batch", record.micro_batch());
  return text + "}";
}

std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                         Json::error_handler_t::replace);
}

// Appends the metadata and the spans of a process.
void AppendProcess(const Shown& shown, int64_t base, std::string* out) {
  const auto metadata = [&](const char* what, int tid,
                            const std::string& name) {
    absl::StrAppend(out, ",\n{\"ph\":\"M\",\"name\":\"", what,
                    "\",\"pid\":", shown.pid, ",\"tid\":", tid,
                    ",\"args\":{\"name\":", Quoted(name), "}}");
  };
  metadata("process_name", 0, shown.name);
  for (size_t i = 0; i < shown.threads.size(); ++i) {
    metadata("thread_name", static_cast<int>(i), shown.threads[i]);
  }
  for (const Event& span : shown.spans) {
    absl::StrAppend(out, ",\n{\"ph\":\"X\",\"name\":",
                    Quoted(shown.traced->names[span.record->name()]),
                    ",\"pid\":", shown.pid, ",\"tid\":", span.thread,
                    ",\"ts\":", Microseconds(span.begin - base),
                    ",\"dur\":", Microseconds(span.end - span.begin),
                    ",\"args\":", ArgumentsOf(*span.record), "}");
  }
}

void AppendArrows(const Shown& shown, int64_t base,
                  const std::set<uint64_t>& whole, std::string* out) {
  for (const Event& arrow : shown.arrows) {
    if (whole.count(arrow.record->flow()) == 0) continue;
    const bool begins = arrow.record->kind() == Record::FLOW_BEGIN;
    absl::StrAppend(out, ",\n{\"ph\":\"", begins ? "s" : "f",
                    begins ? "\"" : "\",\"bp\":\"e\"",
                    ",\"cat\":\"flow\",\"name\":\"flow\",\"id\":\"",
                    absl::Hex(arrow.record->flow()), "\",\"pid\":", shown.pid,
                    ",\"tid\":", arrow.thread,
                    ",\"ts\":", Microseconds(arrow.begin - base), "}");
  }
}

// Returns the arrows of which both ends are there.
std::set<uint64_t> WholeArrows(const std::vector<Shown>& processes) {
  std::set<uint64_t> begun;
  std::set<uint64_t> ended;
  for (const Shown& shown : processes) {
    for (const Event& arrow : shown.arrows) {
      (arrow.record->kind() == Record::FLOW_BEGIN ? begun : ended)
          .insert(arrow.record->flow());
    }
  }
  std::set<uint64_t> whole;
  std::set_intersection(begun.begin(), begun.end(), ended.begin(), ended.end(),
                        std::inserter(whole, whole.end()));
  return whole;
}

Json Describe(const Shown& shown) {
  const TracedProcess& traced = *shown.traced;
  Json json = {{"process", shown.name}};
  if (traced.records.empty()) {
    json["missing"] = "all records: the process was lost before it sent them";
    return json;
  }
  const bool known =
      traced.offset_error_ns < std::numeric_limits<int64_t>::max();
  json["clock_error_microseconds"] =
      known ? Json(static_cast<double>(traced.offset_error_ns) / 1000)
            : Json(nullptr);
  const int64_t dropped = traced.dropped + traced.refused;
  json["dropped_records"] = dropped;
  if (!known) {
    json["missing"] =
        "the clock: no probe was answered, so times are not "
        "comparable with other processes";
  } else if (!traced.complete) {
    json["missing"] =
        "some records: the process was lost, or the job ended, before it sent "
        "all of them";
  } else if (dropped > 0) {
    json["missing"] = "the dropped records, which exceeded the limit";
  }
  return json;
}

}  // namespace

TraceFile::TraceFile(const JobSpec& job, std::string directory,
                     FileSystem* files)
    : spec_(job.output().trace()),
      path_(absl::StrCat(directory, "/trace.json")),
      files_(files) {}

void TraceFile::Add(int64_t attempt, std::vector<TracedProcess> processes) {
  for (TracedProcess& added : processes) {
    changed_ = true;
    const auto known = std::find_if(
        processes_.begin(), processes_.end(), [&](const Process& process) {
          return process.attempt == attempt &&
                 !(process.traced.process < added.process) &&
                 !(added.process < process.traced.process);
        });
    if (known == processes_.end()) {
      processes_.push_back({attempt, std::move(added)});
      continue;
    }
    TracedProcess& all = known->traced;
    // The records that are known already refer to the longer lists.
    if (added.names.size() > all.names.size()) {
      all.names = std::move(added.names);
    }
    if (added.tracks.size() > all.tracks.size()) {
      all.tracks = std::move(added.tracks);
    }
    all.records.insert(all.records.end(),
                       std::make_move_iterator(added.records.begin()),
                       std::make_move_iterator(added.records.end()));
    all.offset_ns = added.offset_ns;
    all.offset_error_ns = added.offset_error_ns;
    all.dropped = std::max(all.dropped, added.dropped);
    all.refused += added.refused;
    all.complete = all.complete || added.complete;
  }
}

std::string TraceFile::Text() const {
  std::set<int64_t> attempts;
  for (const Process& process : processes_) attempts.insert(process.attempt);
  std::vector<Shown> shown;
  int64_t base = std::numeric_limits<int64_t>::max();
  for (const Process& process : processes_) {
    shown.push_back(Arrange(static_cast<int>(shown.size()) + 1, process.attempt,
                            static_cast<int64_t>(attempts.size()),
                            process.traced));
    for (const Event& span : shown.back().spans) {
      base = std::min(base, span.begin);
    }
  }
  DistinguishNames(&shown);
  Json other = {{"begin_step", spec_.begin_step()},
                {"end_step", spec_.end_step()},
                {"clock",
                 "the coordinator's monotonic clock, from the first "
                 "record"},
                {"processes", Json::array()}};
  for (const Shown& process : shown) {
    other["processes"].push_back(Describe(process));
  }
  if (attempts.size() > 1) {
    other["attempts"] = attempts;
  }
  std::string text =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\n\"otherData\":", other.dump(),
                   ",\n\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"trace\","
                   "\"pid\":0,\"tid\":0,\"args\":{}}");
  const std::set<uint64_t> whole = WholeArrows(shown);
  for (const Shown& process : shown) {
    AppendProcess(process, base, &text);
    AppendArrows(process, base, whole, &text);
  }
  text += "\n]}\n";
  return text;
}

absl::Status TraceFile::Write() {
  changed_ = false;
  return WriteFileAtomically(path_, {Text()}, files_);
}

}  // namespace tributary
