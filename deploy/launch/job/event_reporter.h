// Reports events that a launcher observes to the coordinator of its job.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_EVENT_REPORTER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_EVENT_REPORTER_H_

#include <memory>
#include <string>

#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Sends events of the job, such as the restart of a process, to the coordinator
// in order, on a thread of its own. While the coordinator does not answer,
// sends the event again and again: an event may report the restart of the
// coordinator itself. Thread-safe.
class EventReporter {
 public:
  // Maximum number of events that may wait to be sent. Further events are
  // dropped.
  static constexpr size_t kMaxWaiting = 256;

  // `address` is the coordinator's host:port.
  EventReporter(const std::string& address, const Security& security);
  // Cancels the call in flight, drops the events that wait, and blocks until
  // the call has ended.
  ~EventReporter();

  // Queues an event; see EventReport.event. Never blocks.
  void Report(JobEvent event);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_EVENT_REPORTER_H_
