#include "tests/support/faulty_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace tributary {

// A file or a folder. It exists while a program or the state on disk has a name
// for it.
struct FaultyFileSystem::Node {
  bool is_folder = false;
  // For a file: the appended bytes, and the number of them that are on disk.
  std::string bytes;
  size_t synced = 0;
  // After a failed sync the kernel treats the pages as written, so a later sync
  // does not write them.
  bool sync_failed = false;
  // For a folder: its names on disk, followed by its names after each later
  // change. Programs see the last entry.
  std::vector<Entries> history = {Entries()};

  const Entries& entries() const { return history.back(); }

  int64_t TotalBytes() const {
    int64_t total = static_cast<int64_t>(bytes.size());
    for (const auto& [name, node] : entries()) total += node->TotalBytes();
    return total;
  }
};

namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(FaultyFileSystem* owner, std::unique_ptr<WritableFile> file,
       std::shared_ptr<Node> node, std::string path, int64_t power_cuts)
      : owner_(owner),
        file_(std::move(file)),
        node_(std::move(node)),
        path_(std::move(path)),
        power_cuts_(power_cuts) {}

  absl::Status Append(absl::string_view bytes) override {
    TRIBUTARY_RETURN_IF_ERROR(CheckOpen());
    return owner_->Append(node_.get(), bytes, file_.get(), path_);
  }
  absl::Status Sync() override {
    TRIBUTARY_RETURN_IF_ERROR(CheckOpen());
    return owner_->Sync(node_.get(), path_);
  }
  absl::Status Close() override {
    TRIBUTARY_RETURN_IF_ERROR(CheckOpen());
    absl::MutexLock lock(&owner_->mu_);
    TRIBUTARY_RETURN_IF_ERROR(owner_->Count("close", path_));
    return file_->Close();
  }

 private:
  absl::Status CheckOpen() const {
    absl::MutexLock lock(&owner_->mu_);
    return owner_->power_cuts_ == power_cuts_
               ? absl::OkStatus()
               : FileError(EBADF, "opened before the power cut:", path_);
  }

  FaultyFileSystem* const owner_;
  const std::unique_ptr<WritableFile> file_;
  const std::shared_ptr<Node> node_;
  const std::string path_;
  const int64_t power_cuts_;
};

FaultyFileSystem::FaultyFileSystem(std::string root)
    : root_(std::move(root)), posix_(FileSystem::Posix()) {
  Rescan();
}

FaultyFileSystem::~FaultyFileSystem() = default;

std::vector<std::string> FaultyFileSystem::Operations() const {
  absl::MutexLock lock(&mu_);
  return operations_;
}

void FaultyFileSystem::SetFault(const Fault& fault) {
  absl::MutexLock lock(&mu_);
  fault_ = fault;
}

void FaultyFileSystem::SetCapacity(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  capacity_bytes_ = bytes;
}

int64_t FaultyFileSystem::UsedBytes() const {
  absl::MutexLock lock(&mu_);
  return tree_->TotalBytes();
}

void FaultyFileSystem::SetLies(const Lies& lies) {
  absl::MutexLock lock(&mu_);
  lies_ = lies;
}

void FaultyFileSystem::Heal() {
  absl::MutexLock lock(&mu_);
  operations_.clear();
  fault_.reset();
  lies_ = Lies();
  capacity_bytes_ = std::numeric_limits<int64_t>::max();
}

absl::Status FaultyFileSystem::Count(const char* what,
                                     const std::string& path) {
  const int64_t number = static_cast<int64_t>(operations_.size());
  operations_.push_back(absl::StrCat(
      what, " ",
      absl::StartsWith(path, root_) ? path.substr(root_.size()) : path));
  if (path != root_ && !absl::StartsWith(path, root_ + "/")) {
    return absl::InternalError(
        absl::StrCat(path, " is not below the tests' folder ", root_));
  }
  if (fault_.has_value() && (number == fault_->operation ||
                             (fault_->lasting && number > fault_->operation))) {
    return FileError(fault_->error_number, absl::StrCat("cannot ", what), path);
  }
  return absl::OkStatus();
}

std::shared_ptr<FaultyFileSystem::Node> FaultyFileSystem::Find(
    const std::string& path) const {
  std::shared_ptr<Node> node = tree_;
  for (const absl::string_view name :
       absl::StrSplit(path.substr(root_.size()), '/', absl::SkipEmpty())) {
    const auto found = node->entries().find(std::string(name));
    if (found == node->entries().end()) return nullptr;
    node = found->second;
  }
  return node;
}

void FaultyFileSystem::Apply(const std::vector<Change>& changes) {
  std::map<std::shared_ptr<Node>, Entries> changed;
  for (const Change& change : changes) {
    const std::shared_ptr<Node> folder = Find(FolderOf(change.path));
    // The folder was created directly and not rescanned.
    if (folder == nullptr) continue;
    Entries& entries = changed.emplace(folder, folder->entries()).first->second;
    const std::string name = change.path.substr(change.path.rfind('/') + 1);
    entries.erase(name);
    if (change.node != nullptr) entries.emplace(name, change.node);
  }
  for (auto& [folder, entries] : changed) {
    folder->history.push_back(std::move(entries));
  }
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(
    const std::string& path) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("create", path));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                             posix_->Create(path));
  auto node = std::make_shared<Node>();
  Apply({{path, node}});
  return std::make_unique<File>(this, std::move(file), std::move(node), path,
                                power_cuts_);
}

absl::Status FaultyFileSystem::Rename(const std::string& from,
                                      const std::string& to) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("rename", from));
  TRIBUTARY_RETURN_IF_ERROR(posix_->Rename(from, to));
  if (from == to) return absl::OkStatus();
  Apply({{from, nullptr}, {to, Find(from)}});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Link(const std::string& from,
                                    const std::string& to) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("link", from));
  TRIBUTARY_RETURN_IF_ERROR(posix_->Link(from, to));
  Apply({{to, Find(from)}});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Exchange(const std::string& a,
                                        const std::string& b) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("exchange", a));
  TRIBUTARY_RETURN_IF_ERROR(posix_->Exchange(a, b));
  Apply({{a, Find(b)}, {b, Find(a)}});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::SyncFolder(const std::string& path) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("sync folder", path));
  if (lies_.sync_folder) return absl::OkStatus();
  if (!fs::is_directory(path)) return FileError(ENOENT, "cannot open", path);
  const std::shared_ptr<Node> folder = Find(path);
  if (folder != nullptr) {
    folder->history.erase(folder->history.begin(), folder->history.end() - 1);
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::MakeFolder(const std::string& path) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("make folder", path));
  TRIBUTARY_RETURN_IF_ERROR(posix_->MakeFolder(path));
  if (Find(path) == nullptr) {
    auto node = std::make_shared<Node>();
    node->is_folder = true;
    Apply({{path, std::move(node)}});
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Remove(const std::string& path) {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(Count("remove", path));
  TRIBUTARY_RETURN_IF_ERROR(posix_->Remove(path));
  Apply({{path, nullptr}});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Append(Node* node, absl::string_view bytes,
                                      WritableFile* file,
                                      const std::string& path) {
  absl::MutexLock lock(&mu_);
  absl::Status status = Count("append", path);
  if (!status.ok()) {
    const bool first =
        operations_.size() == static_cast<uint64_t>(fault_->operation) + 1;
    bytes = bytes.substr(0, first ? fault_->short_write_bytes : 0);
  }
  const int64_t room =
      std::max<int64_t>(0, capacity_bytes_ - tree_->TotalBytes());
  if (static_cast<int64_t>(bytes.size()) > room) {
    status.Update(FileError(ENOSPC, "cannot append", path));
    bytes = bytes.substr(0, static_cast<size_t>(room));
  }
  TRIBUTARY_RETURN_IF_ERROR(file->Append(bytes));
  absl::StrAppend(&node->bytes, bytes);
  return status;
}

absl::Status FaultyFileSystem::Sync(Node* node, const std::string& path) {
  absl::MutexLock lock(&mu_);
  const absl::Status status = Count("sync", path);
  if (!status.ok()) {
    node->sync_failed = true;
    return status;
  }
  if (!lies_.sync && !node->sync_failed) node->synced = node->bytes.size();
  return absl::OkStatus();
}

void FaultyFileSystem::LoseUnsynced() { CutPower(nullptr); }

void FaultyFileSystem::LoseUnsynced(uint64_t seed) {
  std::mt19937_64 random(seed);
  CutPower(&random);
}

void FaultyFileSystem::CutPower(std::mt19937_64* random) {
  // A random number up to `most`, or 0 if `random` is null.
  const auto any = [&](size_t most) -> size_t {
    return random == nullptr ? 0 : (*random)() % (most + 1);
  };
  {
    absl::MutexLock lock(&mu_);
    for (const auto& entry : fs::directory_iterator(root_)) {
      fs::remove_all(entry.path());
    }
    struct Place {
      std::shared_ptr<Node> node;
      fs::path path;
    };
    std::vector<Place> places = {{tree_, root_}};
    while (!places.empty()) {
      const Place place = places.back();
      places.pop_back();
      const Node& node = *place.node;
      if (node.is_folder) {
        fs::create_directory(place.path);
        for (const auto& [name, child] :
             node.history[any(node.history.size() - 1)]) {
          places.push_back({child, place.path / name});
        }
        continue;
      }
      const size_t size = node.synced + any(node.bytes.size() - node.synced);
      const size_t written = node.synced + any(size - node.synced);
      std::ofstream(place.path, std::ios::binary)
          << node.bytes.substr(0, written) << std::string(size - written, '\0');
    }
    ++power_cuts_;
  }
  Rescan();
}

void FaultyFileSystem::Rescan() {
  auto tree = std::make_shared<Node>();
  tree->is_folder = true;
  std::vector<std::pair<Node*, fs::path>> folders = {{tree.get(), root_}};
  while (!folders.empty()) {
    const auto [folder, path] = folders.back();
    folders.pop_back();
    for (const auto& entry : fs::directory_iterator(path)) {
      auto node = std::make_shared<Node>();
      node->is_folder = entry.is_directory();
      if (node->is_folder) {
        folders.push_back({node.get(), entry.path()});
      } else if (entry.is_regular_file()) {
        node->bytes = ReadAll(entry.path());
        node->synced = node->bytes.size();
      }
      folder->history[0].emplace(entry.path().filename(), std::move(node));
    }
  }
  absl::MutexLock lock(&mu_);
  tree_ = std::move(tree);
}

}  // namespace tributary
