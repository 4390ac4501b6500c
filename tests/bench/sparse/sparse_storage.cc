// Measures tables that do not fit into memory, and checkpoints of large tables:
//
//   sparse_storage disk [MILLION_ROWS [DIM]]
//     Reads and updates rows of Zipf-distributed keys, of a table in memory and
//     of one whose memory has a quarter of the rows, in turn. Prints the
//     million rows per second of both and their ratio; fails if a row differs.
//   sparse_storage checkpoint FOLDER [MILLION_ROWS [DIM]]
//     Saves, verifies and loads a table, one quarter after the other as four
//     servers would, each followed by a checkpoint of what a hundredth of the
//     rows has changed. Prints the rates beside those of plain files of the
//     same size in FOLDER, the bytes of the second checkpoint over those of the
//     rows that it contains, and how long it stops the step, beside the time to
//     copy those bytes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/os/file_system.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_bucket.h"
#include "common/sparse/row_gradients.h"
#include "common/sparse/sparse_table.h"
#include "proto/job.pb.h"
#include "server/checkpoint/table_chain.h"
#include "server/checkpoint/table_files.h"

namespace tributary {
namespace {

constexpr int64_t kKeysPerStep = 1 << 16;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

SparseTableSpec Spec(int dim) {
  SparseTableSpec spec;
  spec.set_name("t");
  spec.set_dim(dim);
  spec.mutable_row_wise_adagrad()->set_learning_rate(0.01);
  return spec;
}

std::shared_ptr<RowGradients> GradientsOf(std::vector<uint64_t> keys, int dim) {
  auto gradients = std::make_shared<RowGradients>();
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  gradients->keys = std::move(keys);
  gradients->values = AllocateBuffer(gradients->rows() * dim);
  for (int64_t i = 0; i < gradients->rows() * dim; ++i) {
    gradients->values.get()[i] = static_cast<float>(i % 7 - 3) * 0.01f;
  }
  return gradients;
}

// Gives each of the rows [begin, end) that belongs to the table a row.
void Fill(int64_t begin, int64_t end, SparseTable* table, int shard,
          int servers) {
  std::vector<uint64_t> keys;
  const auto apply = [&] {
    Check(table->Apply(GradientsOf(std::move(keys), table->dim()), {}));
    keys.clear();
  };
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t key = KeyHash(i);
    const int bucket = BucketOfHash(KeyHash(key), table->spec().buckets());
    if (ServerOfBucket(bucket, servers) == shard) keys.push_back(key);
    if (static_cast<int64_t>(keys.size()) == kKeysPerStep) apply();
  }
  if (!keys.empty()) apply();
}

int MeasureDisk(int64_t rows, int dim) {
  constexpr int kSteps = 60, kWarm = 20;
  SparseTable::Options options;
  options.spec = Spec(dim);
  const auto memory = SparseTable::Create(options).value();
  const RowLayout layout = {dim, memory->rule().StateElements(dim)};
  options.spec.set_memory_bytes(rows * layout.bytes() / 4);
  options.spec.mutable_disk();
  const auto disk = SparseTable::Create(options).value();
  Fill(0, rows, memory.get(), 0, 1);
  Fill(0, rows, disk.get(), 0, 1);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  double seconds[2] = {};
  int64_t updates = 0;
  for (int step = 0; step < kSteps + kWarm; ++step) {
    std::vector<uint64_t> keys;
    for (int64_t i = 0; i < kKeysPerStep; ++i) {
      // Zipf's distribution with exponent 1.
      keys.push_back(KeyHash(static_cast<uint64_t>(
          std::pow(static_cast<double>(rows), uniform(random)))));
    }
    const auto sum = GradientsOf(std::move(keys), dim);
    Buffer values[2];
    SparseTable* const tables[2] = {memory.get(), disk.get()};
    for (const int i : {step % 2, 1 - step % 2}) {
      values[i] = AllocateBuffer(sum->rows() * dim);
      const double taken = Seconds([&] {
        Check(
            tables[i]->Read(tables[i]->version(), sum->keys, values[i].get()));
        Check(tables[i]->Apply(sum, {}));
      });
      if (step >= kWarm) seconds[i] += taken;
    }
    if (step >= kWarm) updates += sum->rows();
    if (std::memcmp(values[0].get(), values[1].get(), 4 * sum->rows() * dim) !=
        0) {
      std::fprintf(stderr, "step %d: rows differ\n", step);
      return 1;
    }
  }
  const SparseTable::Size size = disk->size();
  std::printf(
      "%ld rows, %.2f GB, of which %ld are on the disk (%.2f GB)\n"
      "million rows/s, read and updated: in memory %.2f, with the disk %.2f "
      "(%.2f of it)\n",
      static_cast<long>(size.rows),
      static_cast<double>(rows * layout.bytes()) / 1e9,
      static_cast<long>(size.rows_on_disk),
      static_cast<double>(size.disk_bytes) / 1e9,
      static_cast<double>(updates) / seconds[0] / 1e6,
      static_cast<double>(updates) / seconds[1] / 1e6, seconds[0] / seconds[1]);
  return 0;
}

// Drops a file's pages, so that the disk must read it.
void DropCache(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

// Returns the seconds to write a plain file of `bytes` and to sync it, and
// those to read it.
std::pair<double, double> PlainFile(const std::string& path, int64_t bytes) {
  const std::string block(int64_t{8} << 20, 'x');
  const double write = Seconds([&] {
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    for (int64_t at = 0; at < bytes; at += block.size()) {
      if (::write(file, block.data(), block.size()) < 0) std::abort();
    }
    fsync(file);
    close(file);
  });
  DropCache(path);
  std::string to(block.size(), ' ');
  const double read = Seconds([&] {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    while (::read(file, to.data(), to.size()) > 0) {
    }
    close(file);
  });
  unlink(path.c_str());
  return {write, read};
}

int MeasureCheckpoints(const std::string& folder, int64_t rows, int dim) {
  constexpr int kServers = 4;
  JobSpec job;
  *job.mutable_sparse()->add_table() = Spec(dim);
  CheckpointManifest manifest;
  manifest.set_servers(kServers);
  manifest.set_tables(true);
  manifest.set_job(job.DebugString());
  FileSystem* const files = FileSystem::Posix();
  const std::string base = absl::StrCat(folder, "/base");
  const std::string delta = absl::StrCat(folder, "/delta");
  Check(files->MakeFolder(base));
  Check(files->MakeFolder(delta));
  int64_t bytes = 0, delta_bytes = 0, touched_bytes = 0;
  double save = 0, load = 0, verify = 0, plain_write = 0, plain_read = 0;
  double stall = 0, copy = 0;
  for (int shard = 0; shard < kServers; ++shard) {
    SparseTable::Options options;
    options.spec = Spec(dim);
    options.shard = shard;
    options.servers = kServers;
    auto table = SparseTable::Create(options).value();
    Fill(0, rows, table.get(), shard, kServers);
    TableChain::Options chain_options;
    chain_options.sparse = job.sparse();
    chain_options.shard = shard;
    chain_options.servers = kServers;
    TableChain chain(std::move(chain_options), files);
    int64_t written = 0;
    const auto write = [&](const std::string& to, double* taken) {
      std::vector<SparseTable::Changes> changes;
      *taken += Seconds([&] { changes.push_back(table->TakeChanges(0)); });
      const auto parts = chain.Write(std::move(changes), to);
      Check(parts.status());
      written = parts->back().bytes();
      table->ConfirmChanges(table->version());
      return *parts;
    };
    double first_stall = 0;
    save += Seconds([&] {
      for (const CheckpointFile& part : write(base, &first_stall)) {
        *manifest.add_file() = part;
      }
    });
    bytes += written;
    const auto plain = PlainFile(absl::StrCat(folder, "/plain"), written);
    plain_write += plain.first;
    plain_read += plain.second;
    Fill(rows / 2, rows / 2 + rows / 100, table.get(), shard, kServers);
    const int64_t touched = table->size().rows / 100 *
                            (12 + 4 * (dim + table->rule().StateElements(dim)));
    write(delta, &stall);
    delta_bytes += written;
    touched_bytes += touched;
    // The rows in memory are the source of the copy.
    std::string from(touched, 'x'), to(touched, 'y');
    copy += Seconds([&] { std::memcpy(to.data(), from.data(), touched); });
  }
  for (int shard = 0; shard < kServers; ++shard) {
    for (const CheckpointFile& file : manifest.file()) {
      DropCache(absl::StrCat(base, "/", file.name()));
    }
    verify += Seconds([&] {
      Check(ReadTableFilesOf(
          shard, base, manifest, job.sparse(),
          [](int, const TableRecord&) { return absl::OkStatus(); }));
    });
    SparseTable::Options options;
    options.spec = Spec(dim);
    options.shard = shard;
    options.servers = kServers;
    auto table = SparseTable::Create(options).value();
    load += Seconds([&] {
      Check(ReadTableFilesOf(shard, base, manifest, job.sparse(),
                             [&](int, const TableRecord& record) {
                               return table->Restore(
                                   std::get<BucketRows>(record));
                             }));
    });
  }
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  std::printf(
      "%.0f million rows of dim %d, %.2f GB\n"
      "GB/s: saved %.2f, verified from the disk %.2f, loaded %.2f; a plain "
      "file "
      "written %.2f, read %.2f\n"
      "a delta of a hundredth: %.3f of the bytes of its rows; the step stops "
      "for %.1f ms, copying as many bytes takes %.1f ms\n",
      static_cast<double>(rows) / 1e6, dim, gigabytes, gigabytes / save,
      gigabytes / verify, gigabytes / load, gigabytes / plain_write,
      gigabytes / plain_read,
      static_cast<double>(delta_bytes) / static_cast<double>(touched_bytes),
      stall / kServers * 1e3, copy / kServers * 1e3);
  return 0;
}

int Run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int place, double otherwise) {
    return argc > place ? std::atof(argv[place]) : otherwise;
  };
  if (mode == "disk") {
    return MeasureDisk(static_cast<int64_t>(number(2, 4) * 1e6),
                       static_cast<int>(number(3, 64)));
  }
  if (mode == "checkpoint" && argc > 2) {
    return MeasureCheckpoints(argv[2],
                              static_cast<int64_t>(number(3, 20) * 1e6),
                              static_cast<int>(number(4, 16)));
  }
  std::fprintf(stderr,
               "see the comment in tests/bench/sparse/sparse_storage.cc\n");
  return 2;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) { return tributary::Run(argc, argv); }
