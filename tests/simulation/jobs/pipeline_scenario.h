// Scenarios of jobs with a pipeline.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_PIPELINE_SCENARIO_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_PIPELINE_SCENARIO_H_

#include "tests/simulation/jobs/random.h"
#include "tests/simulation/jobs/scenario.h"

namespace tributary::simulation {

// Turns a job into one with a pipeline of two to four stages, whose model is
// the network of this seed; see BuildTinyNetwork.
void MakePipelineJob(uint64_t seed, Random* random, JobSpec* job);

// Sets the table, the workers and the faults of a scenario with such a job.
void MakePipelineCluster(Random* random, Scenario* scenario);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_PIPELINE_SCENARIO_H_
