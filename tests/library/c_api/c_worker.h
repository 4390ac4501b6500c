/* A worker in C. */
#ifndef TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_
#define TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_

#include "tributary/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mistake { NO_MISTAKE, NO_SHAPE, NO_GRADIENT };

/* Trains the model of c_api_test.cc until the job has ended. Returns the code
 * of the error, and sets `*error`. */
int run_c_worker(const char* coordinator, enum mistake mistake,
                 tributary_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TRIBUTARY_TESTS_LIBRARY_C_API_C_WORKER_H_ */
