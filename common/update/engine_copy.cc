#include "common/update/engine_copy.h"

#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"

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
  return tables->TakeChanges(
      version, [parts, complete](std::vector<SparseTable::Changes> changes) {
        parts->copy.tables = std::move(changes);
        complete();
      });
}

}  // namespace tributary
