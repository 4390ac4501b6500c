// Makes ThreadSanitizer see that gRPC hands things from thread to thread.
//
// The system's gRPC is not instrumented. What a thread did before it started an
// operation happened before what another does when the completion queue yields
// the operation's tag (a reaction of the callback API, too: a thread of gRPC's
// takes it from a queue). As in tsan_abseil.cc, these definitions take the
// place of the library's and call them. Linked by --config=tsan only.

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"

// Internal to gRPC: every operation on a queue, alarms too, begins with it.
bool grpc_cq_begin_op(grpc_completion_queue* queue, void* tag);

// Internal to gRPC 1.51: what its executor runs on a thread of its own, the end
// of a call (OnDone) among it.
struct grpc_closure {
  void* next;
  void (*run)(void* argument, absl::Status error);
  void* argument;
};

namespace grpc_core {
enum class ExecutorType : int;
enum class ExecutorJobType : int;
class Executor {
 public:
  static void Run(grpc_closure* closure, absl::Status error, ExecutorType type,
                  ExecutorJobType job);
};
}  // namespace grpc_core

namespace {

template <typename Function>
Function* Real(Function* /*replaced*/, const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) __builtin_trap();  // Not the gRPC we know.
  return reinterpret_cast<Function*>(symbol);
}

grpc_event Received(grpc_event event) {
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

// A closure's own function, while another waits in its place.
struct Handoff {
  grpc_closure* closure;
  void (*run)(void* argument, absl::Status error);
  void* argument;
};

// gRPC's own accesses to its closures are not seen either, so ours must not be.
__attribute__((no_sanitize("thread"))) void TakeOver(void* argument,
                                                     absl::Status error) {
  __tsan_acquire(argument);
  auto* const handoff = static_cast<Handoff*>(argument);
  const Handoff original = *handoff;
  delete handoff;
  // Some closures are scheduled again and again.
  original.closure->run = original.run;
  original.closure->argument = original.argument;
  original.run(original.argument, std::move(error));
}

}  // namespace

__attribute__((no_sanitize("thread"))) void grpc_core::Executor::Run(
    grpc_closure* closure, absl::Status error, ExecutorType type,
    ExecutorJobType job) {
  static const auto real =
      Real(&grpc_core::Executor::Run,
           "_ZN9grpc_core8Executor3RunEP12grpc_closureN4absl7debian36StatusENS_"
           "12ExecutorTypeENS_15ExecutorJobTypeE");
  auto* const handoff = new Handoff{closure, closure->run, closure->argument};
  closure->run = &TakeOver;
  closure->argument = handoff;
  __tsan_release(handoff);
  real(closure, std::move(error), type, job);
}

// The last of a call's callbacks schedules OnDone, which destroys what the
// others have used. Their counters are decremented in instrumented code. If
// gRPC's own code, which is not instrumented, counts the last one, the
// sanitizer does not see that it happens after the others.
void grpc::internal::ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  using Function = void(ServerCallbackCall*, bool);
  static auto* const real =
      Real(static_cast<Function*>(nullptr),
           "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  callbacks_outstanding_.load(std::memory_order_acquire);
  real(this, inline_ondone);
}

bool grpc_cq_begin_op(grpc_completion_queue* queue, void* tag) {
  static const auto real =
      Real(&grpc_cq_begin_op, "_Z16grpc_cq_begin_opP21grpc_completion_queuePv");
  __tsan_release(tag);
  return real(queue, tag);
}

extern "C" {

// gRPC ends its timer and executor threads in the background, so a program may
// exit before they have been joined. Races are reported as ever.
const char* __tsan_default_options() { return "report_thread_leaks=0"; }

// The end of a call of a generic service: the library's own code, which is not
// instrumented, decides that the last callback has ended.
const char* __tsan_default_suppressions() {
  return "race:ServerCallbackReaderWriterImpl::~ServerCallbackReaderWriterImpl";
}

// Libraries linked with -Bsymbolic-functions (Ubuntu's) call grpc_cq_begin_op
// past us.
grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops,
                                      size_t nops, void* tag, void* reserved) {
  static const auto real =
      Real(&grpc_call_start_batch, "grpc_call_start_batch");
  __tsan_release(tag);
  return real(call, ops, nops, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                      gpr_timespec deadline, void* reserved) {
  static const auto real =
      Real(&grpc_completion_queue_next, "grpc_completion_queue_next");
  return Received(real(queue, deadline, reserved));
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static const auto real =
      Real(&grpc_completion_queue_pluck, "grpc_completion_queue_pluck");
  return Received(real(queue, tag, deadline, reserved));
}

}  // extern "C"
