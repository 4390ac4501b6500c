#include "tests/support/tiny_jobs.h"

#include <cstdint>
#include <fstream>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// A fixed pseudo-random sequence.
uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

void WriteCsv(const std::string& path, int rows) {
  std::ofstream file(path);
  file << "a,b,c,d,label\n";
  for (int row = 0; row < rows; ++row) {
    const int label = row % 3;
    for (int column = 0; column < 4; ++column) {
      const double noise = Mix(row * 4 + column) % 1000 / 1000.0;
      file << noise + (column == label ? 1.0 : 0.0) << ",";
    }
    file << label << "\n";
  }
}

void WriteBigEndian(std::ofstream* file, std::initializer_list<uint32_t> list) {
  for (const uint32_t value : list) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      file->put(static_cast<char>(value >> shift));
    }
  }
}

void WriteIdx(const std::string& directory, const std::string& prefix,
              uint32_t images) {
  constexpr uint32_t kSide = 8;
  std::ofstream pixels(
      absl::StrCat(directory, "/", prefix, "-images-idx3-ubyte"),
      std::ios::binary);
  std::ofstream labels(
      absl::StrCat(directory, "/", prefix, "-labels-idx1-ubyte"),
      std::ios::binary);
  WriteBigEndian(&pixels, {0x803, images, kSide, kSide});
  WriteBigEndian(&labels, {0x801, images});
  for (uint32_t image = 0; image < images; ++image) {
    const uint32_t label = image % 4;
    labels.put(static_cast<char>(label));
    for (uint32_t i = 0; i < kSide * kSide; ++i) {
      const uint32_t noise = Mix(image * kSide * kSide + i) % 100;
      pixels.put(static_cast<char>(noise + (i / 16 == label ? 120 : 0)));
    }
  }
}

void WriteText(const std::string& path) {
  std::ofstream file(path);
  for (int i = 0; i < 200; ++i) {
    file << "line " << i << ": the quick brown fox\n";
  }
}

// A vocabulary with the letters and the special tokens.
void WriteVocabulary(const std::string& path) {
  std::ofstream file(path);
  file << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n:\n";
  for (const char* prefix : {"", "##"}) {
    for (char c = '0'; c <= '9'; ++c) file << prefix << c << "\n";
    for (char c = 'a'; c <= 'z'; ++c) file << prefix << c << "\n";
  }
}

std::string Specification(const std::string& family,
                          const std::string& directory) {
  if (family == "mlp") {
    WriteCsv(directory + "/train.csv", kTinyJobSamples);
    WriteCsv(directory + "/test.csv", 37);
    return absl::StrCat(
        "model { mlp { hidden: 48 hidden: 32 dropout: 0.2 } } data { csv { "
        "train: '",
        directory, "/train.csv' test: '", directory,
        "/test.csv' } } optimizer { sgd { learning_rate: 0.1 weight_decay: "
        "0.001 } }");
  }
  if (family == "cnn") {
    WriteIdx(directory, "train", kTinyJobSamples);
    WriteIdx(directory, "t10k", 41);
    return absl::StrCat(
        "model { cnn { block { channels: 5 kernel: 3 } block { channels: 6 "
        "pool: AVERAGE } hidden: 40 dropout: 0.3 } } data { idx { classes: 4 "
        "directory: '",
        directory, "' } } optimizer { adam { learning_rate: 0.003 } }");
  }
  if (family == "resnet") {
    WriteIdx(directory, "train", kTinyJobSamples);
    WriteIdx(directory, "t10k", 41);
    return absl::StrCat(
        "model { resnet { layers: [1, 1] width: 4 } } clip_norm: 2 data { idx "
        "{ classes: 4 directory: '",
        directory, "' } } optimizer { sgd { learning_rate: 0.05 } }");
  }
  WriteText(directory + "/text.txt");
  if (family == "bert") {
    WriteVocabulary(directory + "/vocab.txt");
    return absl::StrCat(
        "model { bert { layers: 1 heads: 2 width: 16 context: 40 positions: 40 "
        "vocabulary: 80 dropout: 0.1 } } data { text { path: '",
        directory, "/text.txt' tokenizer: '", directory,
        "/vocab.txt' } } optimizer { adamw { learning_rate: 0.003 } } "
        "clip_norm: 1");
  }
  return absl::StrCat(
      "model { gpt { layers: 2 heads: 2 width: 24 context: 16 dropout: 0.1 } } "
      "data { text { path: '",
      directory,
      "/text.txt' } } optimizer { adamw { learning_rate: 0.003 weight_decay: "
      "0.1 } } clip_norm: 1 schedule { warmup_steps: 5 decay: COSINE }");
}

}  // namespace

JobSpec TinyJob(const std::string& family, const std::string& directory) {
  const absl::StatusOr<JobSpec> job = ParseJob(
      absl::StrCat(Specification(family, directory),
                   " batch { global: 16 micro_batches: 8 } steps: 30 "
                   "exchange { parameter_server { chunk_bytes: 4096 } } "
                   "evaluation { every_steps: 12 } output { sample_bytes: 0 }"),
      "tiny_job");
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

}  // namespace tributary
