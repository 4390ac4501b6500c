// The dashboard: a page, and the data that it shows, over HTTP. Read-only.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_DASHBOARD_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_DASHBOARD_H_

#include <functional>
#include <string>
#include <vector>

#include "common/http/http_server.h"
#include "deploy/dashboard/run_list.h"

namespace tributary {

// Answers requests:
//
//   /                 the page; /app.js and the other files of page/
//   /api/runs         the runs, and this program's release
//   /api/series?run=  RunView::Series; also from=, to=, points=
//   /api/lines?run=   RunView::Lines; also from=, to=, count=
//   /api/status?run=  RunView::Status
//   /api/job?run=     RunView::Job
//   /api/log?run=     RunView::Log; also count=
//   /api/events?run=  RunView::Events; also count=
//
// Answers of the interface are JSON; errors have the member "error". Not
// thread-safe.
class Dashboard {
 public:
  struct Options {
    // Returns the tokens that readers may give. Null, or no token: everybody
    // who reaches the address may read, so it should be a loopback address.
    std::function<std::vector<std::string>()> tokens;
    std::string release;  // For the page.
  };

  Dashboard(RunList runs, Options options);

  HttpResponse Handle(const HttpRequest& request);

 private:
  // Returns true if the request names this machine as its host, so that no page
  // of another site can read the answer (DNS rebinding).
  static bool IsLocal(const HttpRequest& request);
  bool IsAllowed(const HttpRequest& request) const;
  HttpResponse Answer(const HttpRequest& request);

  RunList runs_;
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_DASHBOARD_H_
