#include "server/checkpoint/engine_checkpoints.h"

#include <utility>

namespace tributary {

EngineCheckpoints::EngineCheckpoints(Options options, UpdateEngine* engine,
                                     FileSystem* files, SnapshotWriter* writer,
                                     Executor* executor)
    : engine_(engine), writer_(writer), executor_(executor) {
  files_.shard = options.shard;
  files_.servers = options.servers;
  files_.layout = &engine->layout();
  files_.state = engine->slot_names();
  if (engine->tables() == nullptr) return;
  TableChain::Options chain;
  chain.sparse = engine->tables()->sparse();
  chain.shard = options.shard;
  chain.servers = options.servers;
  if (!options.checkpoint.empty()) {
    chain.checkpoint = std::move(options.checkpoint);
    chain.manifest = std::move(options.manifest);
  }
  chain_ = std::make_unique<TableChain>(std::move(chain), files);
}

void EngineCheckpoints::Take(const TakeSnapshot& order) {
  // Copying takes time, so it does not run on the caller's thread.
  executor_->Run([this, version = order.version(), folder = order.folder()] {
    const bool taken =
        CopyEngine(engine_, version, [this, folder, version](EngineCopy copy) {
          writer_->Report(version, SnapshotReport::TAKEN);
          executor_->Run([this, folder,
                          copy = std::make_shared<EngineCopy>(
                              std::move(copy))] { Write(folder, copy.get()); });
        });
    if (!taken) writer_->Report(version, SnapshotReport::PASSED);
  });
}

void EngineCheckpoints::Write(const std::string& folder, EngineCopy* copy) {
  if (chain_ == nullptr) {
    writer_->Write(files_, folder, copy->chunks);
    return;
  }
  const bool written = writer_->Write(files_, folder, copy->chunks, [&] {
    return chain_->Write(std::move(copy->tables), folder);
  });
  if (written) {
    engine_->tables()->ConfirmChanges(copy->chunks.version);
    chain_->Merge();
  } else if (chain_->empty()) {
    engine_->tables()->ChangeAll();
  }
}

}  // namespace tributary
