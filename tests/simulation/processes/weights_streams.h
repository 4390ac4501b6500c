// A simulated server's Exchange streams in front of the real store, in place of
// ParameterServerService. They have no shared memory and no compression.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "server/progress/step_arrivals.h"
#include "server/service/weights_service.h"
#include "server/store/parameter_store.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class WeightsStreams final : public WeightsService {
 public:
  // The streams belong to `scope`.
  WeightsStreams(World* world, int shard, std::shared_ptr<Life> scope);
  ~WeightsStreams() override;

  void Accept(const std::shared_ptr<Link>& link);
  bool idle() const { return streams_.empty(); }
  // Ends all streams. Call it before the store is destroyed.
  void EndAll();

  void Serve(ParameterStore* store, const std::string& job_id,
             int64_t attempt) override;
  void Refuse(const absl::Status&) override {}  // No job is an all-reduce.
  void TakeArrivals(int64_t step, StepSums* sums) override {
    arrivals_.Take(step, sums);
  }
  void CountBytes(ProcessStatistics*) const override {}

 private:
  class Stream;

  World* const world_;
  const int shard_;
  const std::shared_ptr<Life> scope_;
  StepArrivals arrivals_;
  ParameterStore* store_ = nullptr;
  std::string job_id_;
  int64_t attempt_ = 0;
  int64_t next_ = 0;
  std::map<int64_t, std::unique_ptr<Stream>> streams_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_
