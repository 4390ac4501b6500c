#include "deploy/tools/dashboard/page_files.h"

#include "absl/strings/match.h"

namespace tributary {
namespace {

std::string ContentTypeOf(const std::string& name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(name, ".js")) return "text/javascript; charset=utf-8";
  return "image/svg+xml";
}

std::vector<PageFile> MakeFiles() {
  std::vector<PageFile> files = {
#include "deploy/tools/dashboard/page_files.inc"
  };
  for (PageFile& file : files) file.content_type = ContentTypeOf(file.name);
  return files;
}

}  // namespace

const std::vector<PageFile>& PageFiles() {
  static const auto* const files = new std::vector<PageFile>(MakeFiles());
  return *files;
}

}  // namespace tributary
