// A worker that computes with the program's own code. The library connects to a
// job's servers, receives weights, sends gradients and joins again after
// failures; the program computes the gradient of one micro-batch at a time:
//
//   absl::StatusOr<tributary::Worker> worker = tributary::Worker::Connect();
//   if (!worker.ok()) return worker.status();
//   worker->Declare({{"weights", {10, 784}, Uniform}, {"bias", {10}}});
//   while (tributary::Step* step = worker->NextStep()) {
//     for (tributary::MicroBatch& micro_batch : step->micro_batches()) {
//       absl::Span<const float> weights = micro_batch.weights(0);
//       absl::Span<float> gradient = micro_batch.gradient(0);
//       // ... for each sample of micro_batch.indexes(): loss and gradient
//       micro_batch.Ready(0);
//       micro_batch.Ready(1);
//       micro_batch.Finish(loss_sum);
//     }
//     for (tributary::EvaluationPiece& piece : step->evaluation_pieces()) {
//       // ... for each sample from piece.begin() to piece.end() - 1
//       piece.Report(loss_sum, correct, count);
//     }
//   }
//   return worker->status();
//
// docs/cpp.md explains these classes, and examples/cpp/own_engine is a complete
// program.
#ifndef TRIBUTARY_WORKER_H_
#define TRIBUTARY_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/program_rule.h"
#include "common/parameters/parameter_group.h"
#include "common/parameters/untrained_tensor.h"

namespace tributary {

// Classes of the implementation, declared here but not part of the interface.
class JobWorker;
class MicroBatchState;
class PieceState;
class WorkerSession;

// A stream of random numbers. All numbers are a pure function of the
// constructor's arguments, on every machine. Not thread-safe.
class Random {
 public:
  // Creates the stream that proto/SAMPLING.md defines for these values.
  Random(uint64_t seed, uint32_t purpose, uint32_t a, uint32_t b);

  // Returns a number that is uniformly distributed over all 32-bit values.
  uint32_t Bits();
  // Returns a number in [0, 1). Consumes one value of Bits.
  float Uniform();

 private:
  const uint64_t seed_;
  const uint32_t purpose_;
  const uint32_t a_;
  const uint32_t b_;
  uint64_t position_ = 0;
  uint32_t block_[4] = {};
};

struct ParameterDeclaration {
  // A name of at most 256 bytes, which must be unique in the model.
  std::string name;
  // At least one dimension, each at least 1.
  std::vector<int64_t> shape;
  // Writes the initial values to `values`, which contains zeros. Every worker
  // must write the same values: derive them only from `random`, a stream that
  // depends on the job's seed and the parameter's number. Called on a thread of
  // the library; must not throw. If null, the initial values are zero.
  std::function<void(Random* random, absl::Span<float> values)> initialize;
  ParameterGroup group = ParameterGroup::kDecay;
  // Factor of the job's learning rate for this parameter, above 0 and at most
  // 1000. Must be 1 for group kStatistics.
  float learning_rate_factor = 1;
  // Further names of the parameter, for a model that uses it in several places
  // (tied weights). The final model contains the parameter under each name.
  std::vector<std::string> aliases;
};

// A feature of the job's field `sparse`: keys whose rows are in a table on the
// servers.
struct FeatureInfo {
  // How the rows of the keys of a bag become a vector. NONE: a bag has one key,
  // whose row is the vector.
  enum class Pooling { kSum, kMean, kNone };
  std::string name;
  std::string table;
  int64_t dim = 0;  // Number of values of a row, and of a vector.
  Pooling pooling = Pooling::kSum;
};

// Keys that belong to bags: those of bag b are [ends[b - 1], ends[b]) of
// `keys`, where ends[-1] stands for 0. A bag usually belongs to a sample.
struct Bags {
  absl::Span<const uint64_t> keys;
  absl::Span<const int64_t> ends;
};

// Returns the key that the feature `name` has for a text; built-in data sets
// have the same. See "Keys" in proto/DATA.md. `name` is empty for features with
// shared_keys.
uint64_t KeyOf(const std::string& name, const std::string& text);

// The properties of the job that a program needs before it declares its
// parameters.
struct JobInfo {
  std::string name;
  // The job's fields model.external.name and model.external.config (a JSON
  // object). Empty if the job's model is not external.
  std::string model;
  std::string config;
  uint64_t seed = 0;
  int64_t train_samples = 0;
  int64_t evaluation_samples = 0;
  // The fingerprint of the job's data; with data.external, the field
  // data.external.fingerprint. A program that can compute the fingerprint of
  // its own data should compare the two before it declares its parameters.
  uint64_t fingerprint = 0;
  // The number of samples in a batch, and the number of micro-batches into
  // which a batch is divided.
  int64_t batch = 0;
  int micro_batches = 0;
  // The job (JobSpec in proto/job.proto, without default values) as JSON, with
  // the names of the .proto file.
  std::string spec;
  // The features of the job's field `sparse`, in its order. Features are
  // numbered from 0.
  std::vector<FeatureInfo> features;
};

// One micro-batch: some samples, the weights, and memory for the gradients. The
// program computes the gradient of the *sum* of the samples' losses. The same
// micro-batch must yield the same bits on every worker.
//
// Parameters are numbered from 0, in the order of their declaration. The spans
// are valid until Finish is called or the loop over the micro-batches
// continues. An invalid call is recorded as an error, which ends the loops and
// which Worker::status returns. Not thread-safe, but several threads may write
// to different parts of a span.
class MicroBatch {
 public:
  // Number of the step, from 0. With local SGD, counts each local step, not
  // each round.
  int64_t step() const;
  int number() const;  // Number of the micro-batch in the batch, from 0.
  int64_t epoch() const;
  // Returns the positions of the micro-batch's samples in the training data,
  // counted from 0. There is at least one sample.
  absl::Span<const int64_t> indexes() const;
  // Returns a stream that depends only on the job's seed, step(), number() and
  // `layer`, a number from 0 to 4095. Different layers have independent
  // streams.
  Random random(int layer = 0) const;

  // Blocks until the parameter's weights have arrived, and returns them. If the
  // micro-batch has been given up, returns zeros or, after Worker::UseGpu, any
  // values.
  absl::Span<const float> weights(int parameter);
  // Returns memory to which the program writes the parameter's gradient. Its
  // contents are initially unspecified. The gradient is sent from this memory
  // without a copy.
  absl::Span<float> gradient(int parameter);
  // After Worker::UseGpu, returns the CUDA stream (a cudaStream_t) with which
  // the program orders its work on weights and gradients. Valid as long as the
  // spans. Otherwise returns null.
  void* gpu_stream() const;
  // States how many of the samples (for text, tokens) count. By default, all
  // do. The servers divide the sum of the gradients of a step by the sum of the
  // counts of its micro-batches. Call it before the first Ready or Add.
  void SetSampleCount(int64_t count);
  // States the learning rate of the step, at least 0, which takes the place of
  // that of the job's schedule. Programs that state it must do so in all
  // micro-batches of a step, with the same rate in all workers. Call it before
  // the first Ready or Add. Not in consistency mode `local_steps`.
  void SetLearningRate(double rate);
  // States that gradient(parameter) is final. The program must not write to it
  // afterwards. Gradients are sent from the last parameter to the first, so
  // gradients that become ready in this order are sent while the program
  // computes the others.
  void Ready(int parameter);
  // Copies `values`, which are in host memory, to gradient(parameter) and calls
  // Ready.
  void Add(int parameter, absl::Span<const float> values);
  // Looks up rows of a feature's table: writes the vector of each bag, which
  // follows from the rows of its keys (see FeatureInfo::Pooling), to `vectors`,
  // [bags, dim], in host memory. The vector of a bag without keys is zero. A
  // key without a row has the initial values of its row, and is not added to
  // the table. Blocks until the rows have arrived; see Worker::Announce. If the
  // micro-batch has been given up, writes zeros. Returns the number of the
  // look-up, which AddGradient takes. Any number of look-ups may be made.
  int LookUp(int feature, const Bags& bags, absl::Span<float> vectors);
  // Adds to the gradient of the vectors of a look-up, [bags, dim], in host
  // memory; it is zero initially. Rows whose gradient is not given are not
  // updated. The gradients of a row are added in the order of the bags, for
  // bags with the same number in the order of the features, and within a bag in
  // the order of the keys, where the bags of all look-ups of a feature are
  // counted one after another. Call it before Finish.
  void AddGradient(int look_up, absl::Span<const float> gradient);
  // Ends the micro-batch. `loss_sum` is the sum of the losses of its samples;
  // nullopt if the program does not know it: metrics then lack the step's loss.
  // All parameters must be ready.
  void Finish(std::optional<double> loss_sum);

  // Returns true if the micro-batch was given up during a call of weights,
  // Ready or Add: its result is no longer needed, for example because other
  // workers have computed it, a server was lost, or the worker was stopped. The
  // program may finish the micro-batch, or continue with the next one at once.
  bool aborted() const;

  explicit MicroBatch(MicroBatchState* state) : state_(state) {}

 private:
  MicroBatchState* state_;
};

// A range of consecutive samples of the evaluation data, and the weights with
// which the program evaluates them. See MicroBatch for thread safety and
// errors.
class EvaluationPiece {
 public:
  // The samples of the piece have the numbers [begin(), end()) in the
  // evaluation data.
  int64_t begin() const;
  int64_t end() const;
  absl::Span<const float> weights(int parameter);
  // Looks up rows of the version that is evaluated, as MicroBatch::LookUp does.
  void LookUp(int feature, const Bags& bags, absl::Span<float> vectors);
  // Adds a further result of the evaluation, whose value is the sum of all
  // `sum`, in the order of the pieces, divided by the sum of all `count`. At
  // most 64 results, with different names: a letter or underscore, then
  // letters, digits and underscores, at most 64 in all. Call it before Report.
  void AddMetric(const std::string& name, double sum, double count);
  // Ends the piece. `loss_sum` is the sum of the losses, `correct` is the
  // number of correct predictions (0 for models without classes), and `count`
  // is the number of samples (tokens) that count.
  void Report(double loss_sum, int64_t correct, int64_t count);

  explicit EvaluationPiece(PieceState* state) : state_(state) {}

 private:
  PieceState* state_;
};

// The range of a for loop whose iterator calls `next` until it returns null.
template <typename Item>
class ItemRange {
 public:
  class Iterator {
   public:
    Iterator(const ItemRange* range, Item* item) : range_(range), item_(item) {}
    Item& operator*() const { return *item_; }
    Item* operator->() const { return item_; }
    Iterator& operator++() {
      item_ = range_->next_();
      return *this;
    }
    bool operator!=(const Iterator& other) const {
      return item_ != other.item_;
    }

   private:
    const ItemRange* range_;
    Item* item_;
  };
  explicit ItemRange(std::function<Item*()> next) : next_(std::move(next)) {}
  Iterator begin() const { return Iterator(this, next_()); }
  Iterator end() const { return Iterator(this, nullptr); }

 private:
  const std::function<Item*()> next_;
};

// Items of one kind for this worker to compute: either its micro-batches of one
// training step, or pieces of evaluations. The range of the other kind is
// empty. Contains only the part of the job's step that this worker computes.
// Pieces may belong to different evaluations and then have different weights.
// If a server is lost, steps may be repeated.
class Step {
 public:
  // Number of the training step, from 0; -1 for an evaluation.
  int64_t number() const;
  // These methods return ranges for loops over the items of this step. A loop
  // ends only when it is known that the next work belongs to a different step,
  // so the end of a loop may block for as long as Worker::NextStep.
  ItemRange<MicroBatch> micro_batches();
  ItemRange<EvaluationPiece> evaluation_pieces();

  explicit Step(WorkerSession* session) : session_(session) {}

 private:
  WorkerSession* session_;
};

// A connection to a job. If the object is destroyed, for example because of an
// exception, this worker leaves the job, and the other workers take over its
// work. Movable. Not thread-safe, except for Stop.
class Worker {
 public:
  struct Options {
    // Address of server 0 as HOST:PORT.
    std::string coordinator = "127.0.0.1:29400";
    // Requested rank, or -1 for any.
    int rank = -1;
    // See the flags of `tributary worker` with the same names. Empty strings
    // stand for flags that are not set.
    std::string tls_dir;
    std::string token_file;
    bool insecure_network = false;
    std::string advertise;
    // The log goes to stderr. `log_level` is "debug", "info", "warning" or
    // "error"; `log_format` is "text" or "json".
    std::string log_level = "info";
    std::string log_format = "text";
    // File descriptor that also receives warnings; -1 if there is none.
    int warning_fd = -1;

    // Reads the environment variables that `tributary train --worker-command`
    // sets, which docs/clusters.md lists. If they are not set, reads the
    // variables of torchrun, Slurm or Open MPI. Returns InvalidArgument, naming
    // the variable, for an invalid value.
    static absl::StatusOr<Options> FromEnvironment();
  };

  // Joins the job, and blocks until the coordinator has sent the job. While no
  // server answers, retries for a minute. Makes glibc's malloc keep memory that
  // the process frees, unless the environment configures malloc. Without
  // `options`, uses Options::FromEnvironment. Returns InvalidArgument for an
  // invalid option, OutOfRange if the job is done, Unavailable if no server has
  // answered, and otherwise the error with which the worker could not join the
  // job.
  static absl::StatusOr<Worker> Connect();
  static absl::StatusOr<Worker> Connect(const Options& options);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  const JobInfo& job() const;

  // Places weights and gradients in the memory of GPU number `gpu` (in CUDA's
  // order, from 0), for a program that computes on it: MicroBatch::weights,
  // MicroBatch::gradient and EvaluationPiece::weights then return memory of the
  // GPU, or empty spans after an error. The program must not write to weights.
  // The worker copies gradients and weights to and from the servers while the
  // program computes, and does not copy them if a server updates the parameters
  // on the same GPU. The GPU's memory must have room for the weights and the
  // gradients; if there is much more, the worker also adds up gradients in it.
  //
  // The worker's work on this memory runs on MicroBatch::gpu_stream. Use
  // cudaStreamWaitEvent to order the program's work on other streams:
  //
  // - The program's reads of weights wait for gpu_stream, once weights() has
  //   returned them.
  // - gpu_stream waits for the program's writes of a gradient before Ready.
  // - gpu_stream waits for all of the program's work on the spans before
  //   Finish, and before the program continues with another item, even if the
  //   micro-batch was given up.
  // - The weights of an EvaluationPiece may be read at once; the host waits for
  //   the reads before Report.
  // - The host waits for all of the program's work on the spans before it
  //   destroys the Worker.
  //
  // The functions of Worker, Step, MicroBatch and EvaluationPiece may then make
  // the GPU the calling thread's current CUDA device. Must be called before
  // Declare. Returns FailedPrecondition after Declare, in a build without CUDA,
  // if there is no GPU that CUDA can use, and if this build has no code for the
  // GPU or a library is missing; NotFound if there is no GPU with this number;
  // and CUDA's error, such as ResourceExhausted, if the GPU cannot be used.
  // After an error, the worker logs a warning, weights and gradients are in
  // host memory, and PinForGpu may be called.
  absl::Status UseGpu(int gpu);
  // Pins the memory that MicroBatch::weights, MicroBatch::gradient and
  // EvaluationPiece::weights return, for a program that copies weights to GPU
  // number `gpu` and gradients from it itself. CUDA then copies without
  // involving the CPU, and an asynchronous copy does not block the program.
  // Wait for such a copy before you call Ready, Finish or Report, before you
  // continue with another item, even if the micro-batch was given up, and
  // before you destroy the Worker. Child processes have no access to pinned
  // memory. If memory cannot be pinned, the worker logs a warning, and copies
  // are slower; the program may ignore an error of this function. Must be
  // called before Declare. Returns FailedPrecondition after Declare, and if
  // there is no GPU that CUDA can use, and NotFound if there is no GPU with
  // this number.
  absl::Status PinForGpu(int gpu);

  // Sets the update rule of a job with `optimizer { program {} }`, which such a
  // job requires of all its workers, and which other jobs must not have. The
  // worker releases `rule` when it has left the job. Must be called before
  // Declare. Returns FailedPrecondition after Declare.
  absl::Status SetRule(std::shared_ptr<ProgramRule> rule);

  // Declares the model's parameters, in the order of forward. Must be called
  // successfully once, before NextStep. All workers of the job must declare the
  // same parameters. Returns InvalidArgument, naming the parameter, for an
  // invalid declaration, after which Declare may be called again, and
  // FailedPrecondition after an earlier success.
  absl::Status Declare(const std::vector<ParameterDeclaration>& parameters);

  // Makes the worker keep the weights that the job ends with for LastWeights,
  // in memory of their size. Must be called before NextStep.
  void KeepLastWeights();
  // After NextStep has returned null and status() is OK: returns a parameter's
  // values after the last step of the job, in host memory. Valid as long as
  // this object. Returns an empty span if KeepLastWeights was not called, or if
  // the job ended before this worker received its weights.
  absl::Span<const float> LastWeights(int parameter) const;

  // Sets the function that returns the tensors which the file of the final
  // model contains besides the declared parameters, such as frozen parameters,
  // after `steps` steps of the job. One worker of the job calls it once, within
  // NextStep or a loop over a Step, on the thread of the program. Together, the
  // tensors have at most 4 GiB; otherwise the file lacks them, and the worker
  // logs a warning. Must be called before Declare.
  void SetUntrained(
      std::function<std::vector<UntrainedTensor>(int64_t steps)> collect);

  // Ends the job, for all workers, with the weights that the current
  // micro-batch begins with, for example because the model no longer improves.
  // Call it before Ready and Finish of a micro-batch in a loop over
  // Step::micro_batches(). Blocks until the job has ended, and returns its
  // status; then NextStep returns null. The programs of all workers should
  // decide alike, from the weights and the step only: the first one that calls
  // it decides for all. Returns InvalidArgument in consistency modes other than
  // `synchronous` and in an all-reduce, FailedPrecondition outside of the loop,
  // and Cancelled if the job goes on with earlier steps because a server was
  // lost; the program must then be started again.
  absl::Status EndJob();

  // Returns the worker's number in the job, from 0, which it keeps for as long
  // as it takes part. Another worker may get the number of a lost worker.
  int rank() const;
  // Returns the number of workers with which the job has begun. Others may have
  // joined or left.
  int workers() const;

  // States which keys the program will probably look up in a micro-batch that
  // it expects to compute in this step or in one of the next two: those of one
  // micro-batch, by the numbers of the features. The worker requests their rows
  // at once, and they arrive as soon as they have the values that the step
  // reads. Has no influence on results. Does not block.
  void Announce(int64_t step, int micro_batch,
                const std::vector<std::pair<int, absl::Span<const uint64_t>>>&
                    feature_keys);

  // Blocks until there is work and returns it. The result is valid until the
  // next call. Returns null when the job has ended for this worker; status()
  // then states the reason.
  Step* NextStep();

  // Returns OK while the worker takes part and after the job is done, Cancelled
  // if the job or this worker was stopped, and otherwise the error that ended
  // this worker: one line, for the user. After an error of the program, such as
  // a missing gradient, other workers take over the work of this worker; if
  // there are none, the job fails with this message.
  absl::Status status() const;

  // Makes the worker leave the job soon: blocking calls return, and NextStep
  // returns null. Thread-safe, but not async-signal-safe.
  void Stop();

 private:
  friend class JobWorker;
  explicit Worker(std::unique_ptr<WorkerSession> session);

  std::unique_ptr<WorkerSession> session_;
};

// Ends the process with the exit code that launchers expect for a worker's
// status: 0 if it is OK or OutOfRange (the job is done), 75 if it is Cancelled,
// 2 for InvalidArgument and NotFound, otherwise 1. Prints an error as one line,
// which `tributary train` shows. Destroy the worker first. Does not run static
// destructors, because gRPC's threads may still use the objects that they would
// destroy.
[[noreturn]] void EndWorkerProcess(const absl::Status& status);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_H_
