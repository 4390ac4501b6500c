#include "server/process/final_model.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

// Of an all-reduce whose workers are gone, and with them the model.
class FinalModelTest : public testing::Test {
 protected:
  FinalModelTest() {
    facts_.table = MakeTable({{3}, {40, 10}}, /*chunk=*/1024);
    facts_.step = 9;
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(facts_.table));
    arena_ = BufferPool(layout_->arena_elements()).Take();
    options_.output_directory = run_;
    options_.job.mutable_exchange()->mutable_all_reduce();
    options_.job.mutable_optimizer()->mutable_sgd();
    options_.log = log_.get();
    sources_.version = facts_.step;
    sources_.copies = [](int, int, Snapshot*) {
      return absl::UnavailableError("nobody has it");
    };
  }

  // Finished, at the same version; another job's as well as this one's.
  void WriteFinished() {
    const std::string folder = FinalFolder(run_);
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(WriteCheckpointFiles(facts_, folder).ok());
  }

  absl::Status Read() {
    return ReadFinalModel(sources_, options_, *layout_, arena_);
  }
  void ExpectModel() {
    for (const Parameter& parameter : layout_->parameters()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        const float expected =
            ElementAt(parameter.name, /*slot=*/-1, i, facts_.step);
        ASSERT_EQ(std::memcmp(arena_.get() + parameter.offset + i, &expected,
                              sizeof(expected)),
                  0)
            << parameter.name << "[" << i << "]";
      }
    }
  }

  const std::string run_ = MakeFolderForTest();
  const std::unique_ptr<Logger> log_ = *Logger::Create({});
  CheckpointFacts facts_;
  std::unique_ptr<ArenaLayout> layout_;
  Buffer arena_;
  ServerOptions options_;
  FinalModelSources sources_;
};

TEST_F(FinalModelTest, WhatAnotherJobHasFinishedIsNotThisOnesModel) {
  WriteFinished();
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound,
                               testing::HasSubstr("checkpoint.every_steps")));
}

TEST_F(FinalModelTest, WithoutCheckpointsThereAreNoRows) {
  options_.job.mutable_sparse()->add_table();
  EXPECT_THAT(WriteFinalRows(sources_, options_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("checkpoint.every_steps")));
}

TEST_F(FinalModelTest, WhatTheAttemptBeganWithIsTheModel) {
  WriteFinished();
  sources_.complete_checkpoint = FinalFolder(run_);
  ASSERT_EQ(Read(), absl::OkStatus());
  ExpectModel();
}

TEST_F(FinalModelTest, TheLastCheckpointIsTheModelIfItIsOfTheEnd) {
  const std::string checkpoints = CheckpointsFolder(run_);
  ASSERT_TRUE(SaveCheckpoint(facts_, checkpoints, FileSystem::Posix()).ok());
  ASSERT_EQ(Read(), absl::OkStatus());
  ExpectModel();
  sources_.version = facts_.step + 1;
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound,
                               testing::HasSubstr(checkpoints)));
}

}  // namespace
}  // namespace tributary
