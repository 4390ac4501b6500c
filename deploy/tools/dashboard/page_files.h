// The files of the dashboard's page, which are part of the program.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_PAGE_FILES_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_PAGE_FILES_H_

#include <string>
#include <vector>

namespace tributary {

struct PageFile {
  std::string name;  // Within deploy/tools/dashboard/page.
  std::string content_type;
  std::string contents;
};

// Returns all files of the dashboard's web page. Thread-safe.
const std::vector<PageFile>& PageFiles();

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_PAGE_FILES_H_
