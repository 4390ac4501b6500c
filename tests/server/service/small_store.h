// The job and the model of the tests of a server's sessions.
#ifndef TRIBUTARY_TESTS_SERVER_SERVICE_SMALL_STORE_H_
#define TRIBUTARY_TESTS_SERVER_SERVICE_SMALL_STORE_H_

#include <cstdint>

#include "common/job/job.h"
#include "common/update/update_engine.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Returns a table with one parameter of `elements`, without weight decay, in
// chunks of `chunk_elements`.
inline ParameterTable TableOfOneParameter(int64_t elements,
                                          int64_t chunk_elements) {
  ParameterTable table;
  table.set_chunk_elements(chunk_elements);
  auto* const parameter = table.add_parameter();
  parameter->set_name("p");
  parameter->add_shape(elements);
  parameter->set_group(NO_DECAY);
  return table;
}

// Returns the options for ten synchronous steps of four micro-batches of one
// sample, with SGD and learning rate 1.
inline UpdateEngine::Options SmallStoreOptions() {
  JobSpec job;
  job.mutable_batch()->set_global(4);
  job.mutable_batch()->set_micro_batches(4);
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  job.mutable_exchange()->mutable_parameter_server();
  UpdateEngine::Options options;
  options.job = ResolveJob(job);
  options.steps = 10;
  return options;
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_SERVICE_SMALL_STORE_H_
