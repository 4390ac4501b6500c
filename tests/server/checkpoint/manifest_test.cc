#include "server/checkpoint/manifest.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

CheckpointManifest MakeGood() {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {5, 7}}, 32);
  facts.state = {"momentum_buffer"};
  facts.servers = 1;
  facts.step = 10;
  CheckpointManifest manifest = MakeManifest(facts);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    CheckpointFile* const file = manifest.add_file();
    file->set_name(name);
    file->set_bytes(400);
    file->set_block_bytes(256);
    file->add_block_digest(0xfedcba9876543210u);
    file->add_block_digest(0);
  }
  return manifest;
}

std::string Print(const CheckpointManifest& manifest) {
  const auto text = PrintManifest(manifest);
  EXPECT_TRUE(text.ok()) << text.status();
  return *text;
}

TEST(ManifestTest, IsReadAsItWasWritten) {
  const CheckpointManifest manifest = MakeGood();
  const std::string text = Print(manifest);
  EXPECT_THAT(text, StartsWith("{\"xxh3_128\": \""));
  const auto read = ParseManifest(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*read, manifest));
}

TEST(ManifestTest, EveryNumberIsReadAsItWasWritten) {
  for (const double loss :
       {0.0, 0.1, 1e-310, std::numeric_limits<double>::max(),
        std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::nan("")}) {
    CheckpointManifest manifest = MakeGood();
    manifest.mutable_job_state()->set_loss(loss);
    manifest.set_step(std::numeric_limits<int64_t>::max());
    const auto read = ParseManifest(Print(manifest));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->step(), manifest.step());
    if (std::isnan(loss)) {
      EXPECT_TRUE(std::isnan(read->job_state().loss()));
    } else {
      EXPECT_EQ(read->job_state().loss(), loss);
    }
  }
}

TEST(ManifestTest, EveryFlippedBitIsRefused) {
  const std::string good = Print(MakeGood());
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(ParseManifest(bad).status().code(), absl::StatusCode::kDataLoss)
        << "bit " << bit;
  }
}

TEST(ManifestTest, EveryCutIsRefused) {
  const std::string good = Print(MakeGood());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(ParseManifest(good.substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss,
                         testing::AnyOf(HasSubstr("offset 0: "),
                                        HasSubstr("is not whole: bytes"))))
        << size;
  }
  EXPECT_THAT(
      ParseManifest(good + " "),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is not whole: bytes")));
}

// Whoever writes it can give it the right digest.
TEST(ManifestTest, NumbersThatMakeNoSenseAreRefused) {
  const std::pair<const char*, std::function<void(CheckpointManifest*)>>
      manifests[] = {
          {"format 2", [](auto* m) { m->set_format(2); }},
          {"format 0", [](auto* m) { m->clear_format(); }},
          {"step -1", [](auto* m) { m->set_step(-1); }},
          {"version -1", [](auto* m) { m->set_version(-1); }},
          {"version 11", [](auto* m) { m->set_version(11); }},
          {"0 servers", [](auto* m) { m->set_servers(0); }},
          {"65537 servers", [](auto* m) { m->set_servers(65537); }},
          {"no parameters", [](auto* m) { m->clear_table(); }},
          {"signature", [](auto* m) { m->set_signature("0"); }},
          {"a state array", [](auto* m) { m->add_state("momentum_buffer"); }},
          {"a state array", [](auto* m) { m->set_state(0, ""); }},
          {"1001 state arrays",
           [](auto* m) {
             for (int i = 0; i < 1000; ++i) m->add_state(absl::StrCat("s", i));
           }},
          {"no server's file is called",
           [](auto* m) { m->mutable_file(1)->set_name("model.safetensors"); }},
          {"2 files, not 1", [](auto* m) { m->mutable_file()->RemoveLast(); }},
      };
  const std::pair<const char*, std::function<void(ParameterTable*)>> tables[] =
      {
          {"chunk_elements: 0", [](auto* t) { t->set_chunk_elements(0); }},
          {"dimension -3 ",
           [](auto* t) { t->mutable_parameter(0)->set_shape(0, -3); }},
          {"elements",
           [](auto* t) { t->mutable_parameter(0)->set_shape(0, kMax); }},
          {"the name is used twice",
           [](auto* t) { t->mutable_parameter(1)->set_name("a"); }},
      };
  const std::pair<const char*, std::function<void(CheckpointFile*)>> files[] = {
      {"no server's file",
       [](auto* f) { f->set_name("../model.safetensors"); }},
      {"no server's file", [](auto* f) { f->set_name(""); }},
      {"no server's file", [](auto* f) { f->set_name("."); }},
      {"no server's file", [](auto* f) { f->set_name("/etc/passwd"); }},
      {"no server's file", [](auto* f) { f->set_name(std::string(256, 'x')); }},
      {"do not cover", [](auto* f) { f->set_bytes(-1); }},
      {"do not cover", [](auto* f) { f->set_bytes(513); }},
      {"do not cover", [](auto* f) { f->set_bytes(256); }},
      {"do not cover", [](auto* f) { f->set_block_bytes(0); }},
      {"do not cover", [](auto* f) { f->set_block_bytes(-256); }},
      {"do not cover", [](auto* f) { f->clear_block_digest(); }},
      {"at most 67108864",
       [](auto* f) {
         f->set_bytes(kMax);
         f->set_block_bytes(kMax - 1);
       }},
  };
  const auto expect_refused = [](const CheckpointManifest& manifest,
                                 const char* message) {
    EXPECT_THAT(ParseManifest(Print(manifest)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
  };
  for (const auto& [message, change] : manifests) {
    CheckpointManifest manifest = MakeGood();
    change(&manifest);
    expect_refused(manifest, message);
  }
  for (const auto& [message, change] : tables) {
    CheckpointManifest manifest = MakeGood();
    change(manifest.mutable_table());
    expect_refused(manifest, message);
  }
  for (const auto& [message, change] : files) {
    CheckpointManifest manifest = MakeGood();
    change(manifest.mutable_file(0));
    expect_refused(manifest, message);
  }
}

TEST(ManifestTest, ErrorsNameTheFile) {
  const std::string folder = MakeFolderForTest();
  const std::string path = folder + "/manifest.json";
  EXPECT_THAT(ReadManifest(folder),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  std::ofstream(path) << "x";
  EXPECT_THAT(ReadManifest(folder), StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr(path + ": offset 0: ")));
  std::ofstream(path) << Print(MakeGood());
  EXPECT_TRUE(ReadManifest(folder).ok());
}

}  // namespace
}  // namespace tributary
