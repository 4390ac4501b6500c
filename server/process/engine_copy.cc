#include "server/process/engine_copy.h"

#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "server/checkpoint/table_files.h"

namespace tributary {

bool CopyEngine(UpdateEngine* engine, int64_t version,
                std::function<void(EngineCopy)> done) {
  // The two parts complete in any order.
  struct Parts {
    absl::Mutex mu;
    EngineCopy copy;
    int missing = 1;
  };
  const auto parts = std::make_shared<Parts>();
  const auto complete = [parts, done = std::move(done)] {
    {
      absl::MutexLock lock(&parts->mu);
      if (--parts->missing > 0) return;
    }
    done(std::move(parts->copy));
  };
  TableEngine* const tables = engine->tables();
  if (tables != nullptr) parts->missing = 2;
  const bool taken =
      engine->TakeSnapshot(version, [parts, complete](Snapshot chunks) {
        parts->copy.chunks = std::move(chunks);
        complete();
      });
  if (!taken || tables == nullptr) return taken;
  return tables->Copy(
      version, [parts, complete](std::vector<SparseTable::Contents> contents) {
        parts->copy.tables = std::move(contents);
        complete();
      });
}

absl::Status RestoreTables(const std::string& folder,
                           const CheckpointManifest& manifest,
                           TableEngine* tables) {
  // Earlier values are restored by age, and each file has its own.
  std::map<std::pair<int, int>, std::vector<SparseTable::StepBefore>> before;
  TRIBUTARY_RETURN_IF_ERROR(ReadTableFiles(
      folder, manifest, tables->sparse(),
      [&](int table, const TableRecord& record) {
        if (const auto* const rows = std::get_if<BucketRows>(&record)) {
          return tables->table(table)->Restore(*rows);
        }
        const auto& step = std::get<SparseTable::StepBefore>(record);
        before[{table, step.age}].push_back(step);
        return absl::OkStatus();
      }));
  for (const auto& [key, steps] : before) {
    for (const SparseTable::StepBefore& step : steps) {
      tables->table(key.first)->Restore(step);
    }
  }
  return absl::OkStatus();
}

}  // namespace tributary
