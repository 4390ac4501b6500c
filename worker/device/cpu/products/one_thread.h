// Keeps oneDNN to the thread that calls it.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_ONE_THREAD_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_ONE_THREAD_H_

namespace tributary::cpu {

// While one lives, OpenMP gives the calling thread, and so oneDNN, a team of
// one. The setting belongs to the thread, so other threads are not concerned;
// it is put back at the end. Costs a few nanoseconds.
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
