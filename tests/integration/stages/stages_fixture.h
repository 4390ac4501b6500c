// Runs jobs whose model may be divided into stages.
#ifndef TRIBUTARY_TESTS_INTEGRATION_STAGES_STAGES_FIXTURE_H_
#define TRIBUTARY_TESTS_INTEGRATION_STAGES_STAGES_FIXTURE_H_

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {

// The parameter is the model; see TinyJob.
class StagesFixture : public testing::TestWithParam<const char*> {
 protected:
  struct Result {
    std::string digest;
    double loss = 0;
    double evaluation_loss = 0;

    bool operator==(const Result& other) const {
      return digest == other.digest && loss == other.loss &&
             evaluation_loss == other.evaluation_loss;
    }
  };

  // Returns a folder that no other run of this program has had.
  static std::string NewFolder() {
    static int folders = 0;
    const std::string path = absl::StrCat(testing::TempDir(), "/stages-",
                                          GetParam(), "-", ++folders);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  static Result ResultOf(LocalCluster* cluster) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    const nlohmann::json summary = cluster->Summary();
    EXPECT_FALSE(summary.value("weights_sha256", "").empty());
    return {summary.value("weights_sha256", "none"),
            summary.value("final_loss", -1.0),
            summary["evaluation"].value("loss", -1.0)};
  }

  void Set(const std::string& field) {
    const absl::Status status = SetField(&job_, field);
    ASSERT_TRUE(status.ok()) << status;
  }

  Result Run(int workers, int servers = 1,
             const std::string& resume_from = "") {
    folder_ = NewFolder();
    ClusterServers how;
    how.resume_from = resume_from;
    LocalCluster cluster(job_, servers, workers, folder_, /*security=*/{}, how);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    return ResultOf(&cluster);
  }

  JobSpec job_ = TinyJob(GetParam(), NewFolder());
  std::string folder_;  // Of the newest call of Run.
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_STAGES_STAGES_FIXTURE_H_
