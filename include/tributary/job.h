// A whole job in this process, for tests, notebooks and programs that train as
// one of their functions:
//
//   tributary::Job::Options options;
//   options.file = "mnist.textproto";
//   options.set = {"optimizer.sgd.learning_rate=0.05"};
//   tributary::Job job(options);
//   absl::StatusOr<tributary::Job::Result> result = job.Run();
//   if (!result.ok()) return result.status();
//   const std::vector<float>& bias = result->weights["output.bias"].values;
//
// docs/cpp.md explains this class, and examples/cpp/whole_job is a complete
// program.
#ifndef TRIBUTARY_JOB_H_
#define TRIBUTARY_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tributary/registry.h"

namespace tributary {

class Worker;  // tributary/worker.h

// Runs the servers and workers of one job on threads of this process.
// `tributary train` runs the same code, so its result is bit-identical
// (Result::weights_sha256); `tributary train --in-process` does the same.
// Starts no process, opens no socket, writes nothing to stdout and stderr,
// handles no signals, and never ends the process. Any number of jobs may run in
// a process, one after another or concurrently.
class Job {
 public:
  // One completed step or, with local SGD, the completed steps between two
  // exchanges.
  struct StepMetrics {
    int64_t step = 0;  // Number of steps done so far, including these.
    // Mean loss of the samples; NaN if not finite, or not known.
    double loss = 0;
    double learning_rate = 0;
    int64_t samples = 0;  // Number of samples (for text, tokens).
    double seconds = 0;   // Mean time per step, excluding evaluations.
  };

  // One evaluation.
  struct Evaluation {
    int64_t step = 0;  // Number of steps done before the evaluation.
    double loss = 0;
    double accuracy = 0;  // 0 if predictions are not classes.
  };

  // The final value of a parameter.
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;  // In row-major order.
  };

  // The result of a job that is done.
  struct Result {
    std::map<std::string, Tensor> weights;  // Indexed by name of the parameter.
    std::string weights_sha256;
    int64_t steps = 0;
    // Training loss at the end; NaN if not finite, or not known.
    double final_loss = 0;
    std::optional<Evaluation> evaluation;  // The last evaluation, if any.
    double seconds = 0;  // Time of training, including evaluations.
    // Number of samples (for text, tokens) per second of training, excluding
    // evaluations.
    double samples_per_second = 0;
    // The contents of summary.json; docs/metrics.md lists its fields.
    std::string summary;
  };

  struct Options {
    // ---- The job. Set exactly one of `file` and `text`.
    // Path of a job file.
    std::string file;
    // The contents of a job file.
    std::string text;
    // Changes of the job's fields in the form path=value, like the flag --set
    // of `tributary train`.
    std::vector<std::string> set;

    // ---- Models and data of this program that the job names, if any.
    ModelRegistry models;
    DataRegistry data_sets;
    // Computes the gradients of a job whose model or data only this program
    // knows. Called once for each worker, on a thread of its own, with a worker
    // that has received the job. The function must declare the parameters, and
    // compute until NextStep returns null. If it returns an error or throws an
    // exception, the other workers take over the work of this worker; if there
    // are none, the job fails with this error. If `worker` is null, the workers
    // compute the model that the job names.
    std::function<absl::Status(Worker* worker)> worker;

    // ---- Options that never change the result.
    int servers = 1;
    // Number of workers. Fewer are started if the job has fewer micro-batches
    // than workers, except in mode `asynchronous`.
    int workers = 1;
    // Compute threads of each worker. 0 selects 2 threads on a GPU, and on the
    // CPU the number of cores divided by the number of workers; on both, at
    // most the number of micro-batches of a worker. Not used with `worker`.
    int threads = 0;
    // Device of the workers: "auto", "cpu", "cuda" or "cuda:N". Not used with
    // `worker`.
    std::string device = "auto";
    // The device of each worker, such as {"cuda:0", "cuda:1"}. If it is not
    // empty, `workers` and `device` are not used. Not used with `worker`.
    std::vector<std::string> devices;

    // ---- Output.
    // Folder for the model, metrics, checkpoints and summary. If empty, a
    // temporary folder is used, and removed when Run returns.
    std::string output_directory;
    // If the output folder contains results of an earlier run, exactly one of
    // these must be set; otherwise Run returns FailedPrecondition. `resume`
    // continues from the latest checkpoint, or starts at step 0 if there is
    // none. `overwrite` removes the results.
    bool resume = false;
    bool overwrite = false;

    // ---- Callbacks. A thread of the library calls them one at a time, in the
    // order of the steps, until Run returns. They may call Stop but must not
    // throw. Training does not wait for the callbacks. If 16,384 events are
    // waiting for them, further events are dropped.
    //
    // Called once for each step; with local SGD, once for each exchange.
    std::function<void(const StepMetrics& metrics)> on_step;
    std::function<void(const Evaluation& evaluation)> on_evaluation;

    // Called with one line for the user for each warning of a server or worker,
    // and for each worker without which the job continues. Called by the thread
    // that has called Run. Must not throw or block.
    std::function<void(const std::string& text)> on_message;
  };

  explicit Job(Options options);
  // Must not be called while Run is running.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Trains, and blocks until all threads of the job have ended. Call once.
  // Returns InvalidArgument or NotFound if the options, the job or its data are
  // invalid, FailedPrecondition if the output folder contains earlier results
  // or Run was called before, Cancelled if Stop ended the job, and otherwise
  // the error that ended the job. The message is one line for the user.
  absl::StatusOr<Result> Run();

  // Makes Run return soon: the job saves a checkpoint, if it has checkpoints,
  // and ends. A worker function must return soon after NextStep has returned
  // null. May be called at any time, by any thread, repeatedly.
  void Stop();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_JOB_H_
