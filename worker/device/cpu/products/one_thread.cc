#include "worker/device/cpu/products/one_thread.h"

// Functions of libgomp, which oneDNN is linked with. Declared here because
// <omp.h> belongs to the compiler and to code compiled with -fopenmp.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace tributary::cpu {

OneThread::OneThread() : saved_threads_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

OneThread::~OneThread() { omp_set_num_threads(saved_threads_); }

}  // namespace tributary::cpu
