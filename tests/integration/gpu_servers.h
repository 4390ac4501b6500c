// Test suite for servers that sum and update on a device. The test of a kind of
// device links this library and instantiates GpuServersTest with it.
#ifndef TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_
#define TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "common/update/chunk_pass.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace tributary {

// A parameter of the suite: a kind of device.
struct GpuServers {
  std::string name;
  int64_t steps = 1;
  // Creates the passes of a server. If it returns FailedPrecondition, because
  // the machine has no such device, the test is skipped.
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
    bool on_cpu = false;  // True if the servers use the CPU.
    // Folder of the checkpoint to resume from; empty to begin at step 0.
    std::string resume_from;
  };

  void SetUp() override;
  // Sets the field `path` of the job.
  void Set(const std::string& path, const std::string& value);
  // Trains the job. Returns the digest of the final weights. Sets `*output`,
  // unless `output` is null, to the output folder.
  std::string Train(const Cluster& cluster, std::string* output = nullptr);
  // Expects that servers on the device and servers on the CPU compute
  // bit-identical weights.
  void ExpectTheCpusBits(const Cluster& cluster);
  void ExpectTheCpusBits() { ExpectTheCpusBits(Cluster()); }

  JobSpec job_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_GPU_SERVERS_H_
