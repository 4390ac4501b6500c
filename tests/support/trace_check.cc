#include "tests/support/trace_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

using TracedThread = std::pair<int, int>;

struct Span {
  int64_t begin = 0;  // Nanoseconds.
  int64_t end = 0;
};

int64_t Nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

void CheckNesting(const TracedThread& thread, std::vector<Span> spans,
                  std::vector<std::string>* errors) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Span> open;
  for (const Span& span : spans) {
    while (!open.empty() && open.back().end <= span.begin) open.pop_back();
    if (!open.empty() && span.end > open.back().end) {
      errors->push_back(absl::StrCat("process ", thread.first, ", thread ",
                                     thread.second, ": a span at ", span.begin,
                                     " ns overlaps another one"));
    }
    open.push_back(span);
  }
}

}  // namespace

std::vector<std::string> TraceErrors(const nlohmann::json& trace) {
  std::vector<std::string> errors;
  std::map<TracedThread, std::vector<Span>> spans;
  std::set<int> named_processes;
  std::set<TracedThread> named_threads;
  struct Arrow {
    TracedThread thread;
    int64_t at = 0;
  };
  std::map<std::string, std::vector<Arrow>> begins;
  std::map<std::string, std::vector<Arrow>> ends;
  for (const auto& event : trace.at("traceEvents")) {
    const TracedThread thread = {event.at("pid"), event.at("tid")};
    const std::string kind = event.at("ph");
    if (kind == "M") {
      if (event.at("name") == "process_name") {
        named_processes.insert(thread.first);
      }
      if (event.at("name") == "thread_name") named_threads.insert(thread);
      continue;
    }
    const int64_t at = Nanoseconds(event.at("ts"));
    if (at < 0) errors.push_back(absl::StrCat("a time is ", at, " ns"));
    if (kind == "X") {
      const int64_t taken = Nanoseconds(event.at("dur"));
      if (taken < 0) errors.push_back("a duration is negative");
      spans[thread].push_back({at, at + taken});
    } else if (kind == "s" || kind == "f") {
      (kind == "s" ? begins : ends)[event.at("id")].push_back({thread, at});
    } else {
      errors.push_back(absl::StrCat("unknown event ", kind));
    }
  }
  for (const auto& [thread, list] : spans) {
    if (named_processes.count(thread.first) == 0) {
      errors.push_back(absl::StrCat("process ", thread.first, " has no name"));
    }
    if (named_threads.count(thread) == 0) {
      errors.push_back(absl::StrCat("process ", thread.first, ", thread ",
                                    thread.second, " has no name"));
    }
    CheckNesting(thread, list, &errors);
  }
  const auto check_arrows = [&](const auto& arrows, const auto& others) {
    for (const auto& [id, list] : arrows) {
      if (others.count(id) == 0) {
        errors.push_back(absl::StrCat("arrow ", id, " has one end"));
      }
      for (const Arrow& arrow : list) {
        const std::vector<Span>& there = spans[arrow.thread];
        if (std::none_of(there.begin(), there.end(), [&](const Span& span) {
              return span.begin <= arrow.at && arrow.at <= span.end;
            })) {
          errors.push_back(absl::StrCat("arrow ", id, " lies in no span"));
        }
      }
    }
  };
  check_arrows(begins, ends);
  check_arrows(ends, begins);
  return errors;
}

}  // namespace tributary
