// Restricts oneDNN to the calling thread.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_ONE_THREAD_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_ONE_THREAD_H_

namespace tributary::cpu {

// Restricts OpenMP, and with it oneDNN, to the calling thread during the
// object's lifetime. The setting is per thread, so other threads are
// unaffected; the destructor restores it. Costs a few nanoseconds.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_threads_;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_ONE_THREAD_H_
