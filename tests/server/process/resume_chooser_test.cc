#include "server/process/resume_chooser.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "gtest/gtest.h"
#include "server/checkpoint/final_folder.h"
#include "server/process/run_output.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

class ResumeChooserTest : public testing::Test {
 protected:
  ResumeChooserTest() : log_(*Logger::Create(LogOptions())) {
    JobSpec job;
    job.mutable_model()->mutable_synthetic()->set_parameters(16);
    job.mutable_data()->mutable_random();
    job.mutable_batch()->set_global(4);
    job.mutable_batch()->set_micro_batches(4);
    job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    job.mutable_exchange()->mutable_parameter_server();
    job.set_steps(10);
    options_.job = ResolveJob(job);
    options_.output_directory = MakeTestFolder();
    options_.resume = true;
    options_.log = log_.get();
  }

  // Writes the model of the job after `steps` steps, without a checkpoint.
  void WriteFinal(int64_t steps) {
    CheckpointManifest manifest;
    manifest.set_format(1);
    manifest.set_job(PrintJob(options_.job));
    manifest.set_version(steps);
    manifest.set_step(steps);
    ParameterTable* const table = manifest.mutable_table();
    table->set_chunk_elements(1024);
    table->add_parameter()->set_name("weights");
    table->mutable_parameter(0)->add_shape(16);
    table->mutable_parameter(0)->set_group(NO_DECAY);
    const ArenaLayout layout = *ArenaLayout::Create(*table);
    manifest.set_signature(layout.signature());
    const auto output =
        *RunOutput::Create(options_.output_directory, log_.get());
    const std::vector<float> weights(16, 1.f);
    ASSERT_TRUE(output
                    ->WriteModel(kFinalModelName, *ArenaLayout::Create(*table),
                                 weights.data())
                    .ok());
    ASSERT_EQ(
        WriteFinalManifest(FinalFolder(options_.output_directory), manifest),
        absl::OkStatus());
  }

  const std::unique_ptr<Logger> log_;
  ServerOptions options_;
};

TEST_F(ResumeChooserTest, BeginsAnewInAnEmptyFolder) {
  const auto chosen = ResumeChooser(options_).Choose();
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_FALSE(chosen->has_value());
}

// The disk was too full for the last checkpoint, but not for the model.
TEST_F(ResumeChooserTest, AFinalModelWithoutACheckpointIsAFinishedJob) {
  WriteFinal(/*steps=*/10);
  const auto chosen = ResumeChooser(options_).Choose();
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_TRUE(chosen->has_value());
  EXPECT_EQ((*chosen)->folder, FinalFolder(options_.output_directory));
  EXPECT_TRUE((*chosen)->manifest.complete());
}

TEST_F(ResumeChooserTest, AFinalModelDoesNotFinishALongerJob) {
  WriteFinal(/*steps=*/10);
  options_.job.set_steps(20);
  const auto chosen = ResumeChooser(options_).Choose();
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_FALSE(chosen->has_value());
}

}  // namespace
}  // namespace tributary
