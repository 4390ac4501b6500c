// Test suite for workers that compute in the memory of a device. The test of a
// kind of device links this library and instantiates GpuWorkersTest with it.
#ifndef TRIBUTARY_TESTS_INTEGRATION_GPU_WORKERS_H_
#define TRIBUTARY_TESTS_INTEGRATION_GPU_WORKERS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"

namespace tributary {

// A parameter of the suite: a job and a kind of device.
struct GpuWorkers {
  std::string family;  // Family of the model; see TinyJob.
  int64_t steps = 1;
  // Creates the device of a compute thread. If it returns FailedPrecondition,
  // because the machine has no such device, the test is skipped.
  DeviceMaker make_device;
};

inline void PrintTo(const GpuWorkers& workers, std::ostream* os) {
  *os << workers.family;
}

class GpuWorkersTest : public testing::TestWithParam<GpuWorkers> {
 protected:
  struct Cluster {
    int workers = 1;
    int threads = 1;
    int servers = 1;
    bool on_cpu = false;
    int64_t kill_at = -1;  // Step at which a worker is killed; -1 if none is.
  };
  struct Result {
    // Digest of the final weights.
    std::string digest;
    double loss = 0;
    double evaluation_loss = 0;
  };

  void SetUp() override;
  Result Train(const JobSpec& job, const Cluster& cluster);

  JobSpec job_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_INTEGRATION_GPU_WORKERS_H_
