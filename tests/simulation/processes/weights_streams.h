// A simulated server's Exchange and ReadWeights calls, in place of
// ParameterServerService: the same sessions over simulated streams.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/progress/step_arrivals.h"
#include "server/service/exchange_session.h"
#include "server/service/weights_service.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/streams.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

class WeightsStreams final : public WeightsService {
 public:
  // The streams belong to `scope`.
  WeightsStreams(World* world, int shard, std::shared_ptr<Life> scope)
      : world_(world),
        calls_(world, std::move(scope)),
        arrivals_([world] { return world->loop.now(); }) {
    served_.shard = shard;
  }

  void Accept(const std::shared_ptr<Link>& link);
  // Accepts another server's request for the weights.
  void AcceptRead(const std::shared_ptr<Link>& link);
  // Returns the engine that is served; null before Serve.
  UpdateEngine* engine() const { return served_.weights.engine; }
  bool idle() const { return calls_.idle(); }
  // Ends all streams. Call it before the engine is destroyed.
  void EndAll() { calls_.EndAll(); }

  void Serve(const ServedWeights& weights) override {
    served_.weights = weights;
  }
  void Refuse(const absl::Status&) override {}  // No worker connects.
  void TakeArrivals(int64_t step, StepSums* sums) override {
    arrivals_.Take(step, sums);
  }
  Traffic traffic() const override { return {}; }

 private:
  World* const world_;
  ServedCalls calls_;
  StepArrivals arrivals_;
  TransportCounters counters_;
  ExchangeSession::Served served_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WEIGHTS_STREAMS_H_
