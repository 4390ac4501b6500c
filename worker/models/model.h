// Interface between the trainer and a neural network: a parameter table,
// initial values, and the loss and gradient of one micro-batch.
#ifndef TRIBUTARY_WORKER_MODELS_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/model_registry.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_part.h"
#include "worker/nn/step_observer.h"  // StepObserver, LossSums.
#include "worker/nn/weight_copies.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// The outputs that Model::Predict computes for a sample.
struct ModelOutputs {
  enum class Kind {
    kLogits,       // A logit for each class.
    kBinaryLogit,  // The logit of the second of two classes.
    kNumbers,      // Predicted numbers, or the outputs of a loss of a program.
  };
  Kind kind = Kind::kNumbers;
  int64_t count = 0;  // Number of outputs of a sample.
};

// A neural network for micro-batches of up to a fixed number of samples. Owns
// the memory for activations and temporary tensors, which is allocated once, so
// steps do not allocate device memory.
//
// Weights and gradients are arenas. An arena is one block of device memory with
// all parameters, or all gradients; ArenaLayout defines their offsets, and the
// caller owns the block.
//
// Not thread-safe. Each compute thread uses an instance of its own; instances
// share nothing.
class Model {
 public:
  virtual ~Model() = default;

  // Returns the table of the model's parameters: their names, shapes and
  // optimizer groups. The table does not depend on the micro-batch size or the
  // device. Its field `chunk_elements` is not set: the caller sets it in a
  // copy.
  virtual const ParameterTable& table() const = 0;

  // Returns the bytes of device memory for activations, for tensors that
  // forward saves for backward, for the next micro-batch, and for copies of the
  // weights that are not shared with other models (see CreateModel). Excludes
  // the weights and the gradients, whose memory the caller owns.
  virtual int64_t memory_bytes() const = 0;

  // Writes the initial weights, which depend only on the model and the seed.
  // `weights` is a buffer in host memory of layout.arena_elements() elements.
  // Gaps between parameters are set to zero.
  virtual void Initialize(uint64_t seed, const ArenaLayout& layout,
                          float* weights) const = 0;

  // Announces the micro-batch that the next call of ForwardBackward will
  // probably receive. A device with its own memory transfers it during the
  // current computation. Never changes the result. May be called from
  // StepObserver::DeviceBusy.
  virtual void Prefetch(std::shared_ptr<const Batch> /*batch*/) {}

  // Computes forward and backward of one micro-batch in training mode. Writes
  // the gradient of the *sum* of the losses to gradients->data(), and zeros to
  // the gaps between parameters. For parameters of group STATISTICS, such as
  // the running statistics of batch norm, writes the values that OptimizerGroup
  // in proto/parameter_server.proto defines. An empty batch yields zeros.
  // `seed`, `step` and `micro_batch` select the random numbers of dropout.
  // Awaits weights before it reads them, and calls gradients->Ready while
  // backward computes. `observer` may be null. Returns Aborted if the
  // micro-batch was given up (see WeightsView::Await), InvalidArgument if
  // `batch` does not suit the model, and the device's error if it has failed;
  // the gradients are then undefined.
  virtual absl::StatusOr<LossSums> ForwardBackward(const Batch& batch,
                                                   uint64_t seed, int64_t step,
                                                   int micro_batch,
                                                   const WeightsView& weights,
                                                   GradientSink* gradients,
                                                   StepObserver* observer) = 0;

  // Returns OK, or the reason why the device no longer launches captured
  // operations as a unit (see Capture). The model then queues operations one by
  // one, so steps take longer, with the same result.
  virtual absl::Status capture_status() const { return absl::OkStatus(); }

  // Returns the names of the layers; element i is the name of layer number i of
  // StepObserver::OnLayer. Returns an empty list if the model does not report
  // its layers.
  virtual std::vector<std::string> LayerNames() const { return {}; }

  // Computes forward only, in evaluation mode (no dropout; batch norm uses its
  // running statistics). The batch may have fewer samples than `max_samples` of
  // CreateModel. Returns the device's error if it has failed.
  virtual absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                            const float* weights) = 0;

  // Describes what Predict computes.
  virtual ModelOutputs outputs() const { return {}; }
  // Computes forward only, in evaluation mode, for the inputs of a batch, and
  // replaces `outputs` by the model's outputs, [samples, outputs().count]. With
  // the masked-language-model head of BERT, there is a row of logits for each
  // token. Ignores targets. Returns Unimplemented for models that do not
  // support it, and for models whose data are of DataInfo::Kind::kTokens, such
  // as GPT; InvalidArgument if `batch` does not suit the model, and the
  // device's error if it has failed.
  virtual absl::Status Predict(const Batch& /*batch*/, const float* /*weights*/,
                               std::vector<float>* /*outputs*/) {
    return absl::UnimplementedError("this model cannot predict");
  }

  // Computes the logits of the token that follows `tokens`, one for each token
  // of the vocabulary. If `tokens` is longer than the model's context, uses
  // only the last tokens. Returns Unimplemented for models whose data are not
  // of DataInfo::Kind::kTokens, InvalidArgument if `tokens` is empty, a token
  // is out of range, or `logits` has the wrong size, and the device's error if
  // it has failed.
  virtual absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                                       const float* weights,
                                       absl::Span<float> logits) = 0;
};

// The memory that a model needs. Includes copies of the weights in bfloat16, as
// if the model did not share them with other models.
struct ModelMemory {
  int64_t activation_bytes = 0;  // See Model::memory_bytes.
  int64_t arena_bytes = 0;       // Bytes of all weights, or of all gradients.
};

// Computes the memory of the model that CreateModel creates for the same
// arguments, without allocating it. Returns the errors of CreateModel.
absl::StatusOr<ModelMemory> PlanModelMemory(
    const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
    const Device& device, const ModelRegistry& registered = {},
    const NetworkPart& part = {});

// Creates the model that `spec` describes, for the data that `info` describes.
// `max_samples` is the number of samples of the largest micro-batch. `device`
// must outlive the model. Returns InvalidArgument, naming the job's field or
// the layer, if the model cannot be built for such data or a size is invalid,
// and ResourceExhausted if the model does not fit into memory. For an external
// model (a network that the user's program has registered), may return other
// errors of its factory.
//
// `copies` holds the copies of the weights that matrix products read (see
// WeightCopies). It must outlive the model, and may be shared with other models
// that have the same spec and receive the same weights. The owner of `copies`
// must call Renew when the weights change. If `copies` is null, the model
// copies the weights in every call.
//
// `registered` holds the networks that the user's program has registered.
//
// `part` says how the network is computed (see NetworkPart).
absl::StatusOr<std::unique_ptr<Model>> CreateModel(
    const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
    Device* device, WeightCopies* copies = nullptr,
    const ModelRegistry& registered = {}, const NetworkPart& part = {});

// Builds the graph of the model that CreateModel creates. Returns the errors of
// CreateModel. The model must not be synthetic.
absl::StatusOr<Graph> BuildGraph(const ModelSpec& spec, const DataInfo& info,
                                 const ModelRegistry& registered = {});

// Returns the number format (float32, bfloat16 or TF32) in which devices
// compute the model of `job`.
Precision PrecisionOf(const JobSpec& job);

// Returns how workers compute the network of `job` in training.
NetworkPart PartOf(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_MODEL_H_
