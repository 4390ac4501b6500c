// Test suite for servers that sum and update on a device. The test of a kind of
// device links this library and instantiates GpuServersTest with it.
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
  // Returns FailedPrecondition if the machine has no such device; the test is
  // then skipped.
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
    bool on_cpu = false;      // Whether the servers use the CPU.
    std::string resume_from;  // Folder of a checkpoint.
  };

  void SetUp() override;
  // Sets a field of the job.
  void Set(const std::string& path, const std::string& value);
  // Trains the job. Returns the weights' digest, and the output folder in
  // `*output`.
  std::string Train(const Cluster& cluster, std::string* output = nullptr);
  // Expects the same bits from servers on the device and on the CPU.
  void ExpectTheCpusBits(const Cluster& cluster);
  void ExpectTheCpusBits() { ExpectTheCpusBits(Cluster()); }

  JobSpec job_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_
