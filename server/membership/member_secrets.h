// Proofs with which a worker shows servers who it is and what it computes.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_MEMBER_SECRETS_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_MEMBER_SECRETS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Computes and checks the secrets of an attempt's members. Every server of the
// attempt has the same key, so a server can check what the coordinator has told
// a worker without asking the coordinator, and in any order of messages. A
// worker cannot use the incarnation of another one, whose secret it does not
// know. The secrets have no influence on the job's result. Immutable and
// thread-safe.
class MemberSecrets {
 public:
  // Returns a new random key.
  static std::string NewKey();

  explicit MemberSecrets(std::string key) : key_(std::move(key)) {}

  // Returns Admission.secret of the worker with this incarnation.
  std::string OfMember(int64_t incarnation) const;
  // Returns Deal.secret of the worker's assignment.
  std::string OfAssignment(int64_t incarnation, const Deal& deal) const;
  // Returns StagePeer.secret of these two workers, in any order.
  std::string OfPair(int64_t incarnation, int64_t other) const;

  // Returns true if the sender of `hello` is the worker with its incarnation.
  bool Proves(const Hello& hello) const;
  // Returns true if the coordinator has given the worker this assignment.
  bool Proves(int64_t incarnation, const Assigned& assigned) const;

 private:
  const std::string key_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_MEMBER_SECRETS_H_
