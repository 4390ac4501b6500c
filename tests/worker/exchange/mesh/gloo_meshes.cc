#include "tests/worker/exchange/mesh/gloo_meshes.h"

#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "worker/exchange/mesh/gloo_mesh.h"

namespace tributary {

std::vector<std::unique_ptr<PeerMesh>> MakeGlooMeshes(int size,
                                                      absl::Duration timeout) {
  absl::Mutex mu;
  std::map<std::string, std::string> published;
  std::vector<absl::StatusOr<std::unique_ptr<PeerMesh>>> connected(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      GlooMeshOptions options;
      options.rank = rank;
      options.size = size;
      options.timeout = timeout;
      options.publish = [&](const std::string& name, const std::string& bytes) {
        absl::MutexLock lock(&mu);
        published[name] = bytes;
        return absl::OkStatus();
      };
      options.find = [&](const std::string& name) {
        const auto there = [&] { return published.count(name) > 0; };
        absl::MutexLock lock(&mu, absl::Condition(&there));
        return absl::StatusOr<std::string>(published[name]);
      };
      connected[rank] = ConnectGlooMesh(options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<PeerMesh>> meshes;
  for (auto& mesh : connected) {
    EXPECT_TRUE(mesh.ok()) << mesh.status();
    if (!mesh.ok()) return {};
    meshes.push_back(*std::move(mesh));
  }
  return meshes;
}

}  // namespace tributary
