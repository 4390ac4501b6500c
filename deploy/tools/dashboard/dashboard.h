// The dashboard of `tributary dashboard`: a page that shows runs, and the data
// for it, over HTTP. The dashboard changes no run.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_DASHBOARD_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_DASHBOARD_H_

#include <functional>
#include <string>
#include <vector>

#include "common/http/http_server.h"
#include "deploy/tools/dashboard/run_list.h"
#include "deploy/tools/dashboard/run_view.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Answers the HTTP requests of the dashboard, by path:
//
//   /                 the page; /app.js and the other files of page/
//   /api/runs         the runs, and this program's release: running jobs first,
//                     then the run that began last; and the studies
//                     (StudyView::Overview)
//   /api/study?study= StudyView::Details
//   /api/series?run=  RunView::Series; also from=, to=, points=
//   /api/lines?run=   RunView::Lines; also from=, to=, count=
//   /api/resources?run=    RunView::Resources; also from=, to=, count=
//   /api/metrics.csv?run=  RunView::Csv, as a file to save
//   /api/fields       the fields in which the job files of the runs differ
//   /api/status?run=  RunView::Status
//   /api/job?run=     RunView::Job
//   /api/log?run=     RunView::Log; also log= (a name), count=
//   /api/events?run=  RunView::Events; also count=
//
// The responses of /api/ are JSON objects; errors have the member "error".
// `run=` is the key of a run, or its number (`id`) in /api/runs, which another
// dashboard may give to another run. `study=` is the key of a study. Not
// thread-safe.
class Dashboard {
 public:
  struct Options {
    // Returns the valid access tokens; a request must contain one of them. If
    // this function is null or returns no token, requests need no token, but
    // their host must be localhost or a loopback address.
    std::function<std::vector<std::string>()> tokens;
    std::string release;  // Release of this program, shown on the page.
  };

  Dashboard(RunList runs, Options options);

  HttpResponse Handle(const HttpRequest& request);

 private:
  // Returns true if the Host header of the request is localhost or a loopback
  // address. This check prevents DNS rebinding, by which a page of a different
  // site could read the response.
  static bool IsLocal(const HttpRequest& request);
  bool IsAllowed(const HttpRequest& request) const;
  HttpResponse Answer(const HttpRequest& request);
  // Returns the run that `run=` names, or null if there is none.
  RunView* FindRun(const HttpRequest& request) const;
  // Returns the paths of the fields in which the job files of the runs differ,
  // and the values of these fields, by the keys of the runs.
  nlohmann::ordered_json DifferentFields() const;

  RunList runs_;
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_DASHBOARD_H_
