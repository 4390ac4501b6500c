#include "deploy/launch/job/job_messages.h"

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Limits the warnings shown on the terminal; the logs contain all of them.
constexpr size_t kMostWarnings = 100;

}  // namespace

void JobMessages::PassOn(const ProcessSpec& process, const std::string& line) {
  if (passed_on_.size() > kMostWarnings || !passed_on_.insert(line).second) {
    return;
  }
  Show(passed_on_.size() > kMostWarnings
           ? absl::StrCat("there are more than ", kMostWarnings,
                          " different warnings; the others are in the logs "
                          "only, as in ",
                          process.log_path)
           : absl::StrCat(process.name, ": ", line));
}

void JobMessages::Warn(const ProcessSpec& process, const std::string& kind,
                       const std::string& text) {
  Show(text);
  Report(process, kind, text);
}

void JobMessages::WarnLater(const ProcessSpec& process, const std::string& kind,
                            const std::string& text, absl::Time due) {
  Report(process, kind, text);
  held_back_.push_back(text);
  due_ = due;
}

void JobMessages::ShowDue(absl::Time now) {
  if (now >= due_) ShowHeldBack();
}

void JobMessages::ShowHeldBack() {
  for (const std::string& text : held_back_) Show(text);
  held_back_.clear();
  due_ = absl::InfiniteFuture();
}

void JobMessages::Show(const std::string& text) const {
  if (show_) show_(absl::StrCat("warning: ", text));
}

void JobMessages::Report(const ProcessSpec& process, const std::string& kind,
                         const std::string& text) const {
  JobEvent event;
  event.set_severity(JobEvent::WARNING);
  event.set_kind(kind);
  event.set_message(text);
  event.set_role(RoleName(process.role));
  event.set_number(process.number);
  report_(std::move(event));
}

}  // namespace tributary
