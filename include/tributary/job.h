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
// docs/cpp.md explains it, and examples/cpp/whole_job is a complete program.
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

// Runs the servers and workers of one job on threads of this process. They are
// those of `tributary train`, so the result has the same bits (weights_sha256).
// Servers listen on free ports of the loopback interface. Writes nothing to
// stdout and stderr, handles no signals, and never ends the process. Any number
// of jobs may run in a process, one after the other or at once.
class Job {
 public:
  // One completed step.
  struct StepMetrics {
    int64_t step = 0;  // Number of steps done, from 1.
    double loss = 0;   // Mean over the step's samples; NaN if it is not finite.
    double learning_rate = 0;
    int64_t samples = 0;  // Samples (tokens) that count.
    double seconds = 0;   // Since the end of the step before.
  };

  // One evaluation.
  struct Evaluation {
    int64_t step = 0;  // Number of steps done before.
    double loss = 0;
    double accuracy = 0;  // 0 if predictions are not classes.
  };

  // The final value of a parameter.
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;  // In row-major order.
  };

  // A job that is done.
  struct Result {
    std::map<std::string, Tensor> weights;  // By the parameter's name.
    std::string weights_sha256;
    int64_t steps = 0;
    double final_loss = 0;
    std::optional<Evaluation> evaluation;  // The last one.
    double seconds = 0;
    double samples_per_second = 0;
    // The contents of summary.json; docs/metrics.md lists its fields.
    std::string summary;
  };

  struct Options {
    // ---- The job: exactly one of these two.
    // Path of a job file.
    std::string file;
    // The contents of a job file.
    std::string text;
    // Changes of the job's fields in the form path=value, as the flag --set of
    // `tributary train`.
    std::vector<std::string> set;

    // ---- Models and data of this program that the job names, if any.
    ModelRegistry models;
    DataRegistry data_sets;
    // Computes the gradients of a job whose model or data only this program
    // knows. Called once for each worker, on threads of its own, with a worker
    // that has received the job: declares the parameters, and computes until
    // NextStep returns null. An error, or an exception, is that of
    // Worker::status: other workers take over; if there is none, the job fails
    // with it. Null: workers compute the job's model by themselves.
    std::function<absl::Status(Worker* worker)> worker;

    // ---- Never change the result.
    int servers = 1;
    // At most as many workers are started as can compute at the same time.
    int workers = 1;
    // Compute threads of each worker; 0: the machine's cores divided by the
    // workers. Not used with `worker`.
    int threads = 0;
    // "auto", "cpu", "cuda" or "cuda:N". Not used with `worker`.
    std::string device = "auto";

    // ---- Output.
    // Folder for the model, metrics, checkpoints and summary. Empty: a
    // temporary folder, which is removed when Run returns.
    std::string output_directory;
    // An output folder with results of an earlier run is an error unless one of
    // these is set. `resume` continues from the latest checkpoint, or begins if
    // there is none; `overwrite` removes the results.
    bool resume = false;
    bool overwrite = false;

    // ---- Callbacks, on a thread of the library, one call at a time, in the
    // order of the steps, until Run returns. They may call Stop. They must not
    // throw. Training does not wait for them; if they are 16,384 lines behind,
    // lines are dropped.
    //
    // Called once for each step; with local steps, once for each exchange.
    std::function<void(const StepMetrics& metrics)> on_step;
    std::function<void(const Evaluation& evaluation)> on_evaluation;
  };

  explicit Job(Options options);
  // Run must have returned.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Trains, and blocks until all threads of the job have ended. Call once.
  // Returns InvalidArgument or NotFound if the options, the job or its data are
  // wrong, Cancelled after Stop, and otherwise the error that ended the job.
  // The message is one line for the user.
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
