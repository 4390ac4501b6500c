// What a crash in a layer says about the layer.
#include <signal.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/os/crash_handler.h"
#include "common/parameters/arena_layout.h"
#include "gtest/gtest.h"
#include "worker/nn/network.h"

namespace tributary {
namespace {

// Crashes in its backward pass.
class Crashing final : public Layer {
 public:
  LayerSpec Spec() const override {
    LayerSpec spec;
    spec.inputs = {2};
    spec.output = 2;
    ParameterSpec weight;
    weight.name = "weight";
    weight.shape = {2};
    spec.parameters = {weight};
    return spec;
  }
  void Forward(const LayerCall& call, const LayerTensors& t) const override {
    call.device->ops().elementwise->Copy(
        {call.samples * 2, t.inputs[0], t.output});
  }
  void Backward(const LayerCall&, const LayerTensors&) const override {
    raise(SIGSEGV);
  }
};

TEST(CrashContextDeathTest, ACrashNamesTheLayerThePassAndTheStep) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers report crashes themselves";
#endif
  Graph graph(2);
  const ValueId output =
      graph.Add("mine", std::make_unique<Crashing>(), {graph.input()});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, 2}, output);
  ParameterTable table = graph.table();
  table.set_chunk_elements(1024);
  const auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const auto network = Network::Create(std::move(graph), 1, device.get());
  ASSERT_TRUE(network.ok()) << network.status();
  const std::vector<float> input = {1, 2};
  const std::vector<int32_t> target = {1};
  MicroBatchInput micro_batch;
  micro_batch.input = input.data();
  micro_batch.target = target.data();
  micro_batch.samples = 1;
  std::vector<float> weights(layout->arena_elements());
  std::vector<float> gradients(weights.size());
  GradientSink sink(gradients.data());
  EXPECT_EXIT(
      {
        ReportCrashes(/*exhausted_exit_code=*/75);
        (*network)
            ->ForwardBackward(micro_batch, /*seed=*/1, /*step=*/4,
                              /*micro_batch_number=*/2, weights.data(), &sink,
                              /*observer=*/nullptr)
            .IgnoreError();
      },
      testing::KilledBySignal(SIGSEGV),
      "segmentation fault in layer 'mine', backward, of step 5, micro-batch 2");
}

}  // namespace
}  // namespace tributary
