#include "server/checkpoint/table_chain.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/os/file_system.h"
#include "common/os/temporary_directory.h"
#include "common/sparse/key_hash.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/table_files.h"

namespace tributary {
namespace {

constexpr int kDim = 3;

// A file system without hard links.
class WithoutLinks : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return Posix()->Create(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Posix()->Rename(from, to);
  }
  absl::Status Link(const std::string&, const std::string& to) override {
    return FileError(EPERM, "cannot link", to);
  }
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    return Posix()->Exchange(a, b);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return Posix()->SyncFolder(path);
  }
  absl::Status MakeFolder(const std::string& path) override {
    return Posix()->MakeFolder(path);
  }
  absl::Status Remove(const std::string& path) override {
    return Posix()->Remove(path);
  }
};

// One table whose rows come and go, on `servers` servers, and its checkpoints.
class TableChainTest : public testing::Test {
 protected:
  TableChainTest() {
    folder_ = TemporaryDirectory::Create().value();
    SparseTableSpec* const table = job_.mutable_sparse()->add_table();
    table->set_name("users");
    table->set_dim(kDim);
    table->set_buckets(8);
    table->mutable_adagrad()->set_learning_rate(0.1);
    table->mutable_admission()->set_min_count(2);
    table->mutable_expiry()->set_unused_steps(20);
    table->set_capacity(400);
  }

  void Start(int servers, const std::string& checkpoint = "",
             FileSystem* files = FileSystem::Posix()) {
    std::optional<CheckpointManifest> manifest;
    if (!checkpoint.empty()) manifest = manifest_;
    chains_.clear();
    tables_.clear();
    for (int shard = 0; shard < servers; ++shard) {
      SparseTable::Options options;
      options.spec = job_.sparse().table(0);
      options.shard = shard;
      options.servers = servers;
      options.version = step_;
      tables_.push_back(SparseTable::Create(options).value());
      TableChain::Options chain;
      chain.sparse = job_.sparse();
      chain.shard = shard;
      chain.servers = servers;
      chain.checkpoint = checkpoint;
      chain.manifest = manifest;
      chains_.push_back(std::make_unique<TableChain>(std::move(chain), files));
    }
    if (checkpoint.empty()) return;
    ASSERT_TRUE(ReadTableFiles(checkpoint, manifest_, job_.sparse(),
                               [&](int, const TableRecord& record) {
                                 return tables_[ServerOf(record)]->Restore(
                                     std::get<BucketRows>(record));
                               })
                    .ok());
  }
  int ServerOf(const TableRecord& record) const {
    return ServerOfBucket(std::get<BucketRows>(record).bucket,
                          static_cast<int>(tables_.size()));
  }

  void Train(int steps) {
    for (const int end = step_ + steps; step_ < end; ++step_) {
      std::set<uint64_t> keys;
      for (int i = 0; i < 60; ++i) keys.insert(random_() % (300 + 9 * step_));
      for (size_t shard = 0; shard < tables_.size(); ++shard) {
        auto gradients = std::make_shared<RowGradients>();
        for (const uint64_t key : keys) {
          const int bucket = BucketOfHash(KeyHash(key), 8);
          if (ServerOfBucket(bucket, static_cast<int>(tables_.size())) ==
              static_cast<int>(shard)) {
            gradients->keys.push_back(key);
          }
        }
        gradients->values = AllocateBuffer(gradients->rows() * kDim);
        for (int64_t i = 0; i < gradients->rows() * kDim; ++i) {
          gradients->values.get()[i] = static_cast<float>(random_() % 100) / 50;
        }
        ASSERT_TRUE(tables_[shard]->Apply(gradients, {}).ok());
      }
    }
  }

  // Writes a checkpoint of all servers, like LocalServer. Returns its folder.
  std::string Save() {
    const std::string folder = absl::StrCat(folder_->path(), "/step-", step_);
    EXPECT_TRUE(FileSystem::Posix()->MakeFolder(folder).ok());
    manifest_.Clear();
    manifest_.set_servers(static_cast<int>(tables_.size()));
    manifest_.set_tables(true);
    manifest_.set_job(job_.DebugString());
    for (size_t shard = 0; shard < tables_.size(); ++shard) {
      std::vector<SparseTable::Changes> changes;
      changes.push_back(tables_[shard]->TakeChanges(0));
      const auto written = chains_[shard]->Write(std::move(changes), folder);
      error_ = written.status();
      if (!written.ok()) {
        if (chains_[shard]->empty()) tables_[shard]->ChangeAll();
        return folder;
      }
      for (const CheckpointFile& file : *written) *manifest_.add_file() = file;
      tables_[shard]->ConfirmChanges(step_);
      chains_[shard]->Merge();
    }
    return folder;
  }

  void ExpectSaved(const std::string& folder) {
    std::vector<BucketRows> saved(8);
    const absl::Status read = ReadTableFiles(
        folder, manifest_, job_.sparse(), [&](int, const TableRecord& record) {
          const auto& rows = std::get<BucketRows>(record);
          saved[rows.bucket] = rows;
          return absl::OkStatus();
        });
    ASSERT_TRUE(read.ok()) << read;
    for (const auto& table : tables_) {
      for (const int bucket : table->buckets()) {
        const BucketRows rows = table->ReadBucket(bucket).value();
        EXPECT_EQ(saved[bucket].keys, rows.keys);
        EXPECT_EQ(saved[bucket].last_steps, rows.last_steps);
        EXPECT_EQ(saved[bucket].values, rows.values);
        EXPECT_EQ(saved[bucket].candidates.size(), rows.candidates.size());
      }
    }
  }
  int64_t Bytes(int part) const {
    return TableFilesOf(0, manifest_)[part]->bytes();
  }
  size_t Parts() const { return TableFilesOf(0, manifest_).size(); }

  std::unique_ptr<TemporaryDirectory> folder_;
  JobSpec job_;
  std::mt19937_64 random_{7};
  int step_ = 0;
  std::vector<std::unique_ptr<SparseTable>> tables_;
  std::vector<std::unique_ptr<TableChain>> chains_;
  CheckpointManifest manifest_;
  absl::Status error_;
};

TEST_F(TableChainTest, EveryCheckpointHasAllRows) {
  for (const int servers : {1, 3}) {
    step_ = 0;
    Start(servers);
    std::set<size_t> parts;
    for (int checkpoint = 0; checkpoint < 20; ++checkpoint) {
      Train(1 + checkpoint % 4);
      const std::string folder = Save();
      ASSERT_TRUE(error_.ok()) << error_;
      ExpectSaved(folder);
      parts.insert(Parts());
      // Nobody needs it any more.
      for (const CheckpointFile& file : manifest_.file()) {
        ASSERT_TRUE(FileSystem::Posix()
                        ->Remove(absl::StrCat(folder, "/", file.name()))
                        .ok());
      }
      ASSERT_TRUE(FileSystem::Posix()->Remove(folder).ok());
    }
    EXPECT_GT(parts.size(), 2u);  // Some were merged, some not.
    EXPECT_LE(*parts.rbegin(), 17u);
  }
}

TEST_F(TableChainTest, ACheckpointCostsWhatHasChanged) {
  job_.mutable_sparse()->mutable_table(0)->clear_capacity();
  Start(1);
  Train(60);
  const std::string first = Save();
  Train(1);
  const std::string second = Save();
  EXPECT_EQ(Parts(), 2u);
  EXPECT_LT(Bytes(1), Bytes(0) / 4);
  struct stat a, b;
  ASSERT_EQ(stat(absl::StrCat(first, "/tables.rows").c_str(), &a), 0);
  ASSERT_EQ(stat(absl::StrCat(second, "/tables.rows").c_str(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  // The links of the running server go with it.
  chains_.clear();
  EXPECT_FALSE(
      ListFolder(absl::StrCat(folder_->path(), "/tables-00001-of-00001")).ok());
  ASSERT_EQ(stat(absl::StrCat(second, "/tables.rows").c_str(), &b), 0);
}

TEST_F(TableChainTest, ContinuesACheckpointWithAnyNumberOfServers) {
  Start(2);
  Train(30);
  Save();
  Train(5);
  std::string folder = Save();
  for (const int servers : {2, 3, 1, 1}) {
    Start(servers, folder);
    Train(4);
    folder = Save();
    ASSERT_TRUE(error_.ok()) << error_;
    ExpectSaved(folder);
  }
}

TEST_F(TableChainTest, CopiesFilesWhereLinksAreNotSupported) {
  WithoutLinks files;
  Start(1, "", &files);
  Train(20);
  Save();
  Train(2);
  std::string folder = Save();
  ExpectSaved(folder);
  Start(1, folder, &files);
  Train(3);
  folder = Save();
  ASSERT_TRUE(error_.ok()) << error_;
  ExpectSaved(folder);
  chains_.clear();
}

TEST_F(TableChainTest, WhatAFailedCheckpointLostIsInTheNext) {
  Start(1);
  Train(20);
  Save();
  Train(3);
  // The name of a file of the next checkpoint is taken.
  const std::string folder = absl::StrCat(folder_->path(), "/step-", step_);
  ASSERT_TRUE(FileSystem::Posix()->MakeFolder(folder).ok());
  std::ofstream(absl::StrCat(folder, "/tables.1.rows")) << "x";
  Save();
  EXPECT_FALSE(error_.ok());
  Train(2);
  const std::string next = Save();
  ASSERT_TRUE(error_.ok()) << error_;
  ExpectSaved(next);
}

TEST_F(TableChainTest, BeginsAgainAfterDamage) {
  Start(1);
  Train(20);
  Save();
  // One byte of the only copy.
  const std::string links =
      absl::StrCat(folder_->path(), "/tables-00001-of-00001");
  const std::string part = absl::StrCat(links, "/", ListFolder(links)->at(0));
  {
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x');
  }
  // Until the parts are merged, and it is found.
  std::string folder;
  for (int i = 0; i < 30 && error_.ok(); ++i) {
    Train(8);
    folder = Save();
  }
  EXPECT_EQ(error_.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(error_.message().find(part), absl::string_view::npos);
  Train(1);
  folder = Save();
  ASSERT_TRUE(error_.ok()) << error_;
  EXPECT_EQ(Parts(), 1u);
  ExpectSaved(folder);
}

}  // namespace
}  // namespace tributary
