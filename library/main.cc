#include "tributary/main.h"

#include "absl/status/status.h"
#include "deploy/flags/exit_code.h"
#include "deploy/run_program.h"
#include "worker/training/training_sources.h"

namespace tributary {

int Main(int argc, char** argv, const ModelRegistry& models,
         const DataRegistry& data_sets) {
  absl::Status status = models.status();
  status.Update(data_sets.status());
  if (!status.ok()) EndProcess(ReportError(status));
  RunProgram(argc, argv, TrainingSources(models, data_sets));
}

}  // namespace tributary
