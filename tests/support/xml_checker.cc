#include "tests/support/xml_checker.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

constexpr absl::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;",
                                           "&#39;"};

class Checker {
 public:
  explicit Checker(absl::string_view document)
      : document_(document), rest_(document) {}

  std::string Check() {
    while (error_.empty() && !rest_.empty()) {
      if (absl::ConsumePrefix(&rest_, "</")) {
        CheckEnd();
      } else if (absl::ConsumePrefix(&rest_, "<")) {
        CheckStart();
      } else {
        CheckText();
      }
    }
    if (error_.empty() && (!open_.empty() || !seen_root_)) {
      Fail("the document ends too early");
    }
    return error_;
  }

 private:
  void Fail(const std::string& what) {
    const size_t at = document_.size() - rest_.size();
    const size_t from = at > 40 ? at - 40 : 0;
    error_ = absl::StrCat(what, " after: ", document_.substr(from, at - from));
  }

  absl::string_view TakeName() {
    size_t length = 0;
    while (length < rest_.size() &&
           (absl::ascii_isalnum(rest_[length]) || rest_[length] == '-')) {
      ++length;
    }
    const absl::string_view name = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (name.empty()) Fail("a name is missing");
    return name;
  }

  void SkipSpace() {
    while (!rest_.empty() && absl::ascii_isspace(rest_[0])) {
      rest_.remove_prefix(1);
    }
  }

  void CheckEnd() {
    const absl::string_view name = TakeName();
    if (!error_.empty()) return;
    if (open_.empty() || open_.back() != name) return Fail("an end too many");
    open_.pop_back();
    if (!absl::ConsumePrefix(&rest_, ">")) Fail("> is missing");
  }

  void CheckStart() {
    if (open_.empty() && seen_root_) return Fail("a second root");
    seen_root_ = true;
    const absl::string_view name = TakeName();
    std::set<absl::string_view> attributes;
    while (error_.empty()) {
      SkipSpace();
      if (absl::ConsumePrefix(&rest_, "/>")) return;
      if (absl::ConsumePrefix(&rest_, ">")) return open_.push_back(name);
      if (!attributes.insert(TakeName()).second) {
        return Fail("an attribute is there twice");
      }
      if (!error_.empty()) return;
      if (!absl::ConsumePrefix(&rest_, "=\"")) return Fail("=\" is missing");
      const size_t end = rest_.find('"');
      if (end == absl::string_view::npos) return Fail("a value has no end");
      CheckCharacters(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
    }
  }

  void CheckText() {
    const absl::string_view text = rest_.substr(0, rest_.find('<'));
    if (open_.empty() && !absl::StripAsciiWhitespace(text).empty()) {
      return Fail("text outside of the root");
    }
    CheckCharacters(text);
    rest_.remove_prefix(text.size());
  }

  void CheckCharacters(absl::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c == '<' || (c < 0x20 && c != '\n' && c != '\t' && c != '\r')) {
        return Fail("a character that must not be there");
      }
      if (c == '&' && std::none_of(std::begin(kEntities), std::end(kEntities),
                                   [&](absl::string_view entity) {
                                     return absl::StartsWith(text.substr(i),
                                                             entity);
                                   })) {
        return Fail("an unknown entity");
      }
    }
  }

  const absl::string_view document_;
  absl::string_view rest_;
  bool seen_root_ = false;
  std::vector<absl::string_view> open_;
  std::string error_;
};

}  // namespace

std::string CheckXml(absl::string_view document) {
  return Checker(document).Check();
}

}  // namespace tributary
