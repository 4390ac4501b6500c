/* The interface of tributary/worker.h and tributary/job.h for other languages:
 * plain C, without exceptions or C++ types. python/tributary is a binding of
 * it.
 *
 *   tributary_error error;
 *   tributary_worker* worker;
 *   if (tributary_worker_connect(NULL, &worker, &error) != 0) { ... }
 *   tributary_worker_declare(worker, parameters, count, &error);
 *   tributary_step* step;
 *   while ((step = tributary_worker_next_step(worker)) != NULL) {
 *     tributary_micro_batch_info info;
 *     tributary_micro_batch* micro_batch;
 *     while ((micro_batch = tributary_step_next_micro_batch(step, &info))) {
 *       tributary_micro_batch_spans(micro_batch, weights, gradients);
 *       // ... for each sample of info.indexes: loss and gradient
 *       for (int p = count - 1; p >= 0; --p)
 *         tributary_micro_batch_ready(micro_batch, p);
 *       tributary_micro_batch_finish(micro_batch, loss_sum);
 *     }
 *     // ... the same with tributary_step_next_piece
 *   }
 *   tributary_worker_status(worker, &error);
 *   tributary_worker_free(worker);
 *
 * Most functions call a method of a class in tributary/worker.h. A comment here
 * names the method, whose description applies, and adds only what differs. Only
 * one thread at a time may call the functions of a worker, its steps,
 * micro-batches and pieces, except tributary_worker_stop. Strings are UTF-8.
 * Handles must not be null.
 */
#ifndef TRIBUTARY_C_API_H_
#define TRIBUTARY_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Every incompatible change increments it. */
#define TRIBUTARY_C_API_VERSION 3

/* Handles. A worker is valid until tributary_worker_free. A step is valid until
 * the next call of tributary_worker_next_step. A micro-batch or a piece is
 * valid until the next call of tributary_step_next_micro_batch,
 * tributary_step_next_piece or tributary_worker_next_step. */
typedef struct tributary_worker tributary_worker;
typedef struct tributary_step tributary_step;
typedef struct tributary_micro_batch tributary_micro_batch;
typedef struct tributary_piece tributary_piece;

/* An error, in memory of the caller. Functions with a tributary_error argument
 * always set it. `code` is a value of absl::StatusCode, which equals the status
 * code of gRPC: 0 is OK, 1 is Cancelled, 3 is InvalidArgument. `message` is one
 * line, which is truncated if it does not fit. It is empty if `code` is 0. */
typedef struct tributary_error {
  int32_t code;
  char message[2044];
} tributary_error;

/* The fields of tributary::JobInfo. The strings are valid as long as the
 * worker. */
typedef struct tributary_job {
  const char* name;
  const char* model;
  const char* config;
  uint64_t seed;
  int64_t train_samples;
  int64_t evaluation_samples;
  uint64_t fingerprint;
  int64_t batch;
  int64_t micro_batches;
  const char* spec;
} tributary_job;

/* Values of tributary_parameter.group. They equal the values of
 * tributary::ParameterGroup. */
enum {
  TRIBUTARY_GROUP_DECAY = 1,
  TRIBUTARY_GROUP_NO_DECAY = 2,
  TRIBUTARY_GROUP_STATISTICS = 3
};

/* The fields of tributary::ParameterDeclaration. `shape` points to `dimensions`
 * sizes. `initial` points to the initial values, whose number is the product of
 * the sizes; if it is null, the initial values are 0. If `learning_rate_factor`
 * is 0, the factor is 1. `aliases` points to `alias_count` names. */
typedef struct tributary_parameter {
  const char* name;
  const int64_t* shape;
  int32_t dimensions;
  int32_t group;
  const float* initial;
  float learning_rate_factor;
  const char* const* aliases;
  int32_t alias_count;
} tributary_parameter;

/* The fields of tributary::UntrainedTensor. `shape` points to `dimensions`
 * sizes, and `data` to `bytes` bytes. */
typedef struct tributary_untrained {
  const char* name;
  const char* dtype;
  const int64_t* shape;
  int32_t dimensions;
  const void* data;
  size_t bytes;
} tributary_untrained;

/* Values of tributary_feature.pooling. They equal the values of
 * SparseFeatureSpec.Pooling in proto/job.proto. */
enum {
  TRIBUTARY_POOLING_SUM = 1,
  TRIBUTARY_POOLING_MEAN = 2,
  TRIBUTARY_POOLING_NONE = 3
};

/* The fields of tributary::FeatureInfo. The strings are valid as long as the
 * worker. */
typedef struct tributary_feature {
  const char* name;
  const char* table;
  int64_t dim;
  int32_t pooling;
} tributary_feature;

/* The keys of a feature. For an announcement, `ends` and `bags` are not used;
 * otherwise they are those of a tributary::Bags. */
typedef struct tributary_keys {
  int32_t feature;
  const uint64_t* keys;
  size_t key_count;
  const int64_t* ends;
  size_t bags;
} tributary_keys;

/* The properties of a tributary::MicroBatch. `indexes` points to `samples`
 * indexes of samples, and is valid as long as the micro-batch. `random_seed` is
 * a number that depends only on the job's seed, `step` and `number`. */
typedef struct tributary_micro_batch_info {
  int64_t step;
  int64_t number;
  int64_t epoch;
  const int64_t* indexes;
  int64_t samples;
  uint64_t random_seed;
} tributary_micro_batch_info;

/* The range of a tributary::EvaluationPiece: the samples from `begin` to
 * `end` - 1. */
typedef struct tributary_piece_info {
  int64_t begin;
  int64_t end;
} tributary_piece_info;

/* The fields of tributary::ProgramRule::Update. The arrays have `parameters`
 * elements. */
typedef struct tributary_rule_update {
  int64_t step;
  size_t parameters;
  const float* const* weights;
  float* const* gradients;
  float* const* new_weights;
} tributary_rule_update;

/* A tributary::ProgramRule. `load`, `apply` and `save` are its methods with
 * these names; each receives `context`. `*error` is no error when they are
 * called; a code other than 0 is the error with which the worker fails. */
typedef struct tributary_rule {
  void (*load)(void* context, const void* state, size_t bytes,
               tributary_error* error);
  void (*apply)(void* context, const tributary_rule_update* update,
                tributary_error* error);
  void (*save)(void* context, void* state, size_t bytes,
               tributary_error* error);
  void* context;
} tributary_rule;

/* Returns the TRIBUTARY_C_API_VERSION with which the library was built. */
int32_t tributary_c_api_version(void);
/* Returns the version of Tributary, such as "1.2.3". */
const char* tributary_version(void);

/* Calls Worker::Connect. `coordinator` is the address of server 0 as HOST:PORT.
 * All other options are read from the environment; so is the address if
 * `coordinator` is null. Returns 0 and sets `*worker`, which the caller must
 * free, or returns the code of the error. After the first call, exit() flushes
 * the standard streams and ends the process without calling the exit handlers
 * that were registered before that call. */
int32_t tributary_worker_connect(const char* coordinator,
                                 tributary_worker** worker,
                                 tributary_error* error);
/* Leaves the job and frees everything that belongs to the worker. Blocks until
 * its connections are closed. Not for the worker of a tributary_run. */
void tributary_worker_free(tributary_worker* worker);
/* Sets `*job` to the result of Worker::job. */
void tributary_worker_get_job(const tributary_worker* worker,
                              tributary_job* job);
/* These functions call Worker::UseGpu and Worker::PinForGpu. They return 0 or
 * the code of the error. */
int32_t tributary_worker_use_gpu(tributary_worker* worker, int32_t gpu,
                                 tributary_error* error);
int32_t tributary_worker_pin_for_gpu(tributary_worker* worker, int32_t gpu,
                                     tributary_error* error);
/* Calls Worker::SetRule. Copies `rule`; its functions may be called until
 * tributary_worker_free or, for the worker of a tributary_run,
 * tributary_run_train returns. Returns 0 or the code of the error. */
int32_t tributary_worker_set_rule(tributary_worker* worker,
                                  const tributary_rule* rule,
                                  tributary_error* error);
/* Calls Worker::Declare. Copies the arguments. Returns 0 or the code of the
 * error. */
int32_t tributary_worker_declare(tributary_worker* worker,
                                 const tributary_parameter* parameters,
                                 size_t count, tributary_error* error);
/* These functions call Worker::rank, Worker::workers and
 * Worker::KeepLastWeights. */
int32_t tributary_worker_rank(const tributary_worker* worker);
int32_t tributary_worker_workers(const tributary_worker* worker);
void tributary_worker_keep_last_weights(tributary_worker* worker);
/* Writes the address of the last weights of each parameter (see
 * Worker::LastWeights) to `weights`, an array with one element for each
 * parameter. Returns 1, or 0 if there are none. */
int32_t tributary_worker_last_weights(const tributary_worker* worker,
                                      const float** weights);
/* Calls Worker::SetUntrained. `collect` is called with `context`, and returns
 * the tensors by calls of tributary_worker_add_untrained, which copies one. */
void tributary_worker_set_untrained(tributary_worker* worker,
                                    void (*collect)(void* context,
                                                    int64_t steps),
                                    void* context);
void tributary_worker_add_untrained(tributary_worker* worker,
                                    const tributary_untrained* tensor);
/* Calls Worker::EndJob. Returns 0 or the code of the error. */
int32_t tributary_worker_end_job(tributary_worker* worker,
                                 tributary_error* error);
/* Returns the number of features of the job's field `sparse`, and sets
 * `*feature` to feature number `number`, from 0, if `feature` is not null. */
size_t tributary_worker_features(const tributary_worker* worker, size_t number,
                                 tributary_feature* feature);
/* Calls KeyOf. `text` points to `bytes` bytes of any value. */
uint64_t tributary_key_of(const char* name, const char* text, size_t bytes);
/* Calls Worker::Announce with the keys of `count` features. */
void tributary_worker_announce(tributary_worker* worker, int64_t step,
                               int32_t micro_batch, const tributary_keys* keys,
                               size_t count);
/* Calls Worker::NextStep. Returns null when the job has ended for this
 * worker. */
tributary_step* tributary_worker_next_step(tributary_worker* worker);
/* Sets `*error` to the result of Worker::status and returns its code. */
int32_t tributary_worker_status(const tributary_worker* worker,
                                tributary_error* error);
/* Calls Worker::Stop. May be called by any thread before tributary_worker_free
 * is called. */
void tributary_worker_stop(tributary_worker* worker);

/* Returns Step::number. */
int64_t tributary_step_number(const tributary_step* step);
/* These functions return the next item of Step::micro_batches or of
 * Step::evaluation_pieces, and set `*info`. They return null after the last
 * item. */
tributary_micro_batch* tributary_step_next_micro_batch(
    tributary_step* step, tributary_micro_batch_info* info);
tributary_piece* tributary_step_next_piece(tributary_step* step,
                                           tributary_piece_info* info);

/* Writes the address of the weights of each parameter to `weights`, and the
 * address of its gradient to `gradients`. Both arrays have one element for each
 * parameter. Blocks until all weights have arrived, and returns 1. Returns 0 if
 * the micro-batch has been given up: the result is then not needed, and weights
 * may be zeros or, after tributary_worker_use_gpu, any values. After an error
 * and tributary_worker_use_gpu, the addresses are null. */
int32_t tributary_micro_batch_spans(tributary_micro_batch* micro_batch,
                                    const float** weights, float** gradients);
/* Returns MicroBatch::gpu_stream. */
void* tributary_micro_batch_gpu_stream(
    const tributary_micro_batch* micro_batch);
/* Calls MicroBatch::LookUp. Writes the vectors, [bags, dim] floats, to
 * `vectors`. Sets `*given_up` to 1 if the micro-batch has been given up, and
 * otherwise to 0. Returns the number of the look-up. */
int32_t tributary_micro_batch_look_up(tributary_micro_batch* micro_batch,
                                      const tributary_keys* keys,
                                      float* vectors, int32_t* given_up);
/* Calls MicroBatch::AddGradient with `elements` floats. */
void tributary_micro_batch_add_gradient(tributary_micro_batch* micro_batch,
                                        int32_t look_up, const float* gradient,
                                        size_t elements);
/* These functions call MicroBatch::SetSampleCount,
 * MicroBatch::SetLearningRate, MicroBatch::Ready and MicroBatch::Finish; the
 * last one does so without a loss. */
void tributary_micro_batch_set_sample_count(tributary_micro_batch* micro_batch,
                                            int64_t count);
void tributary_micro_batch_set_learning_rate(tributary_micro_batch* micro_batch,
                                             double rate);
void tributary_micro_batch_ready(tributary_micro_batch* micro_batch,
                                 int32_t parameter);
void tributary_micro_batch_finish(tributary_micro_batch* micro_batch,
                                  double loss_sum);
void tributary_micro_batch_finish_without_loss(
    tributary_micro_batch* micro_batch);

/* Writes the address of the weights of each parameter to `weights`, an array
 * with one element for each parameter. Does not block. */
void tributary_piece_weights(tributary_piece* piece, const float** weights);
/* Calls EvaluationPiece::LookUp. See tributary_micro_batch_look_up. */
void tributary_piece_look_up(tributary_piece* piece, const tributary_keys* keys,
                             float* vectors);
/* These functions call EvaluationPiece::AddMetric and
 * EvaluationPiece::Report. */
void tributary_piece_add_metric(tributary_piece* piece, const char* name,
                                double sum, double count);
void tributary_piece_report(tributary_piece* piece, double loss_sum,
                            int64_t correct, int64_t count);

/* ---- A whole job in this process: tributary::Job. */

typedef struct tributary_run tributary_run;

/* The fields of Job::StepMetrics. */
typedef struct tributary_step_metrics {
  int64_t step;
  double loss;
  double learning_rate;
  int64_t samples;
  double seconds;
} tributary_step_metrics;

/* The fields of Job::Options. Strings and arrays may be null, which stands for
 * empty; numbers that are 0 have the default of Job::Options. The callbacks may
 * be null; each receives `context`.
 *
 * `worker` is Job::Options::worker. It is called on a thread for each worker,
 * with a handle that is valid until it returns. It sets `*error`; a code other
 * than 0 is the error with which the worker fails. `on_step` and `on_message`
 * are the callbacks of Job::Options with these names. */
typedef struct tributary_run_options {
  const char* file;
  const char* text;
  const char* const* set;
  size_t set_count;
  const char* output_directory;
  int32_t resume;
  int32_t overwrite;
  int32_t servers;
  int32_t workers;
  int32_t threads;
  const char* const* devices;
  size_t device_count;
  void (*worker)(void* context, tributary_worker* worker,
                 tributary_error* error);
  void (*on_step)(void* context, const tributary_step_metrics* metrics);
  void (*on_message)(void* context, const char* text);
  void* context;
} tributary_run_options;

/* Returns a job that has not begun, which the caller must free. Copies the
 * options, except `context`. */
tributary_run* tributary_run_create(const tributary_run_options* options);
/* Calls Job::Run. Call once. Returns 0, or the code of the error. The results
 * are in the output directory. */
int32_t tributary_run_train(tributary_run* run, tributary_error* error);
/* Calls Job::Stop. May be called by any thread before tributary_run_free. */
void tributary_run_stop(tributary_run* run);
/* Must not be called while tributary_run_train is running. */
void tributary_run_free(tributary_run* run);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TRIBUTARY_C_API_H_ */
