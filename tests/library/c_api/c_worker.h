/* A worker that is written in C and uses tributary/c_api.h. */
#ifndef TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_
#define TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_

#include "tributary/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A wrong use of the interface; OWN_RULE is a right one: the worker sets a rule,
 * which is SGD with the learning rate of c_api_test.cc, and WRONG_RULE one that
 * returns an error. */
enum mistake { NO_MISTAKE, NO_SHAPE, NO_GRADIENT, OWN_RULE, WRONG_RULE };

/* Trains the model of c_api_test.cc until the job has ended. Makes `mistake` on
 * purpose. Returns the code of the worker's status, 0 for OK, and sets
 * `*error`. */
int run_c_worker(const char* coordinator, enum mistake mistake,
                 tributary_error* error);

/* The same, with a worker that has joined the job. */
int compute_c_worker(tributary_worker* worker, enum mistake mistake,
                     tributary_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_ */
