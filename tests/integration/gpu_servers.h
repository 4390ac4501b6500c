// The suite of servers that sum and update on a device of their own. A test of
// a kind of device links the library and instantiates GpuServersTest with it.
#ifndef TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_
#define TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "server/store/chunk_pass.h"

namespace tributary {

struct GpuServers {
  std::string name;
  int64_t steps = 1;
  // FailedPrecondition where the machine has no such device: the test is
  // skipped.
  ChunkPassMaker make_passes;
};

inline void PrintTo(const GpuServers& servers, std::ostream* os) {
  *os << servers.name;
}

class GpuServersTest : public testing::TestWithParam<GpuServers> {
 protected:
  struct Cluster {
    int servers = 1;
    int workers = 2;
    bool on_cpu = false;      // The servers.
    std::string resume_from;  // A checkpoint.
  };

  void SetUp() override;
  // Changes a field of the job.
  void Set(const std::string& path, const std::string& value);
  // Trains the job. The weights' digest, and where the results are.
  std::string Train(const Cluster& cluster, std::string* output = nullptr);
  // The job comes to the same bits on servers of either kind.
  void ExpectTheCpusBits(const Cluster& cluster);
  void ExpectTheCpusBits() { ExpectTheCpusBits(Cluster()); }

  JobSpec job_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_
