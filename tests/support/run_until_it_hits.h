// Repeats a disturbed run whose disturbance came too late.
#ifndef TRIBUTARY_TESTS_SUPPORT_RUN_UNTIL_IT_HITS_H_
#define TRIBUTARY_TESTS_SUPPORT_RUN_UNTIL_IT_HITS_H_

#include <functional>

namespace tributary {

// Calls `run` until it returns true: its disturbance, such as a kill, hit the
// job that it started. On a busy machine, the job may end before that, or a
// process may stand still for so long that it counts as lost. Each call must
// start a job of its own, with a folder of its own. Fails the test if no call
// of `most_runs` returns true. Returns after the first call with a failed
// expectation.
void RunUntilItHits(const std::function<bool()>& run, int most_runs = 10);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_RUN_UNTIL_IT_HITS_H_
