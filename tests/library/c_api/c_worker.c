#include "tests/library/c_api/c_worker.h"

#include <string.h>

enum { SIZE = 3, PARAMETERS = 2 };

/* The learning rate of the job, times the factors of the parameters. */
static const float RATES[PARAMETERS] = {0.0625f, 0.03125f};

static _Thread_local int64_t steps_of_rule;

/* The loss of sample i is (w[i % SIZE] + b - target)^2 / 2. The target depends
 * on the seed of the micro-batch, as the noise of a program would. */
static double train(const tributary_micro_batch_info* info,
                    const float* const* weights, float* const* gradients) {
  const float target = (float)(info->random_seed % 1000) / 1000;
  double loss = 0;
  for (int i = 0; i < SIZE; ++i) gradients[0][i] = 0;
  gradients[1][0] = 0;
  for (int64_t i = 0; i < info->samples; ++i) {
    const int64_t place = info->indexes[i] % SIZE;
    const float error = weights[0][place] + weights[1][0] - target;
    gradients[0][place] += error;
    gradients[1][0] += error;
    loss += error * error / 2;
  }
  return loss;
}

static void train_step(tributary_step* step, enum mistake mistake) {
  tributary_micro_batch_info info;
  tributary_micro_batch* micro_batch;
  while ((micro_batch = tributary_step_next_micro_batch(step, &info)) != NULL) {
    const float* weights[PARAMETERS];
    float* gradients[PARAMETERS];
    tributary_micro_batch_spans(micro_batch, weights, gradients);
    const double loss = train(&info, weights, gradients);
    tributary_micro_batch_set_sample_count(micro_batch, info.samples);
    tributary_micro_batch_set_learning_rate(micro_batch, /*rate=*/0.0625);
    tributary_micro_batch_ready(micro_batch, 1);
    if (mistake != NO_GRADIENT) tributary_micro_batch_ready(micro_batch, 0);
    tributary_micro_batch_finish(micro_batch, loss);
  }
}

static void evaluate(tributary_step* step) {
  tributary_piece_info info;
  tributary_piece* piece;
  while ((piece = tributary_step_next_piece(step, &info)) != NULL) {
    const float* weights[PARAMETERS];
    tributary_piece_weights(piece, weights);
    tributary_piece_report(piece, weights[1][0], /*correct=*/1,
                           info.end - info.begin);
  }
}

static void load_rule(void* context, const void* state, size_t bytes,
                      tributary_error* error) {
  (void)context;
  (void)error;
  /* The state is the number of steps that the rule has applied. */
  if (bytes >= 1) steps_of_rule = *(const char*)state;
}

static void apply_rule(void* context, const tributary_rule_update* update,
                       tributary_error* error) {
  if (update->parameters != PARAMETERS || update->step != steps_of_rule++) {
    error->code = 13;
    strcpy(error->message, "the rule has another state");
  }
  if (context == NULL) {
    error->code = 9;
    strcpy(error->message, "the rule is wrong");
  }
  const int64_t sizes[PARAMETERS] = {SIZE, 1};
  for (int p = 0; p < PARAMETERS; ++p) {
    for (int64_t i = 0; i < sizes[p]; ++i) {
      update->new_weights[p][i] =
          update->weights[p][i] - RATES[p] * update->gradients[p][i];
    }
  }
}

static void save_rule(void* context, void* state, size_t bytes,
                      tributary_error* error) {
  (void)context;
  (void)error;
  if (bytes >= 1) *(char*)state = (char)steps_of_rule;
}

static int set_rule(tributary_worker* worker, enum mistake mistake,
                    tributary_error* error) {
  static int right;
  const tributary_rule rule = {&load_rule, &apply_rule, &save_rule,
                               mistake == OWN_RULE ? &right : NULL};
  return tributary_worker_set_rule(worker, &rule, error);
}

static int declare(tributary_worker* worker, enum mistake mistake,
                   tributary_error* error) {
  const int64_t shape[] = {SIZE}, one[] = {1};
  const float initial[SIZE] = {1, 2, 3};
  const tributary_parameter parameters[PARAMETERS] = {
      {"w", shape, mistake == NO_SHAPE ? 0 : 1, TRIBUTARY_GROUP_DECAY, initial,
       /*learning_rate_factor=*/0},
      {"b", one, 1, TRIBUTARY_GROUP_NO_DECAY, NULL, 0.5f}};
  return tributary_worker_declare(worker, parameters, PARAMETERS, error);
}

int compute_c_worker(tributary_worker* worker, enum mistake mistake,
                     tributary_error* error) {
  tributary_job job;
  tributary_worker_get_job(worker, &job);
  /* Without a GPU, returns FailedPrecondition, and the job goes on. */
  enum { FAILED_PRECONDITION = 9 };
  if (tributary_worker_pin_for_gpu(worker, /*gpu=*/0, error) != 0 &&
      error->code != FAILED_PRECONDITION) {
    return error->code;
  }
  if ((mistake == OWN_RULE || mistake == WRONG_RULE) &&
      set_rule(worker, mistake, error) != 0) {
    return error->code;
  }
  if (declare(worker, mistake, error) != 0) return error->code;
  if (job.train_samples != 40 || job.spec[0] != '{') return -1;
  if (tributary_worker_rank(worker) >= tributary_worker_workers(worker)) {
    return -1;
  }
  tributary_worker_keep_last_weights(worker);
  tributary_step* step;
  while ((step = tributary_worker_next_step(worker)) != NULL) {
    if (tributary_step_number(step) >= 0) train_step(step, mistake);
    evaluate(step);
  }
  const float* last[PARAMETERS];
  const int32_t kept = tributary_worker_last_weights(worker, last);
  if (tributary_worker_status(worker, error) == 0 && !kept) error->code = -1;
  return error->code;
}

int run_c_worker(const char* coordinator, enum mistake mistake,
                 tributary_error* error) {
  tributary_worker* worker;
  if (tributary_worker_connect(coordinator, &worker, error) != 0) {
    return error->code;
  }
  const int code = compute_c_worker(worker, mistake, error);
  tributary_worker_free(worker);
  return code;
}
