// Scenarios of jobs with tables.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_TABLES_SCENARIO_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_TABLES_SCENARIO_H_

#include "tests/simulation/jobs/random.h"
#include "tests/simulation/jobs/scenario.h"

namespace tributary::simulation {

// Turns a job into one with one or two tables and two or three features, whose
// model is the network of the scenario's seed; see BuildTinyNetwork.
void MakeTablesJob(Random* random, JobSpec* job);

// Sets the table of parameters, the workers and the late rows of a scenario
// with such a job.
void MakeTablesCluster(Random* random, Scenario* scenario);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_TABLES_SCENARIO_H_
