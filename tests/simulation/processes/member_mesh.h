// The connections between the simulated members of an all-reduce, in place of
// GlooMesh.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_MEMBER_MESH_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_MEMBER_MESH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary::simulation {

class MemberMesh;

// The port at which a worker process accepts the connections of other members.
class MemberPort {
 public:
  // `world` must outlive this object, which must outlive its meshes.
  MemberPort(World* world, std::shared_ptr<Life> process)
      : world_(world), process_(std::move(process)) {}

  // Accepts the connection of another member.
  void Accept(const std::shared_ptr<Link>& link);

  // Connects as ConnectGlooMesh does, with a link in each direction between
  // every two members. `options.host` is the name of this process. As in Gloo,
  // only options.connect_timeout ends the wait for a member that does not
  // connect.
  //
  // A message is read from the sender's memory after the receiver has posted
  // its transfer, and written to the receiver's memory when it arrives, so that
  // reusing memory too early changes the result. Destroying a transfer before
  // its end violates a property of the history.
  absl::StatusOr<std::unique_ptr<PeerMesh>> Connect(
      const GlooMeshOptions& options);

 private:
  friend class MemberMesh;

  World* const world_;
  const std::shared_ptr<Life> process_;
  std::map<std::string, MemberMesh*> meshes_;  // Indexed by a unique name.
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_MEMBER_MESH_H_
