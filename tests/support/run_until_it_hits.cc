#include "tests/support/run_until_it_hits.h"

#include "gtest/gtest.h"

namespace tributary {

void RunUntilItHits(const std::function<bool()>& run, int most_runs) {
  for (int i = 0; i < most_runs; ++i) {
    if (run() || testing::Test::HasFailure()) return;
  }
  ADD_FAILURE() << "none of " << most_runs << " runs was disturbed as it must "
                << "be";
}

}  // namespace tributary
