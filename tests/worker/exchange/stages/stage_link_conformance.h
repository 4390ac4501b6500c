// What every transport between stages must do. A test program instantiates
// StageLinkConformance for its transports.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_LINK_CONFORMANCE_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_LINK_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/stages/stage_pair.h"
#include "worker/exchange/stages/transfer.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

class StageLinkConformance : public testing::TestWithParam<StageTransport> {
 protected:
  // The bound of every route, and the size of its transfers, unless a test
  // connects with a plan of its own.
  static constexpr int kSlots = 3;
  static constexpr int64_t kMaxBytes = 1000;

  StageLinkConformance() { Connect({}); }

  // Connects a pair with these routes; by default one for each kind, at
  // boundary 0.
  void Connect(std::vector<TransferRoute> routes);

  absl::Status Send(const TransferKey& key, const std::string& bytes,
                    int64_t epoch = 1) {
    return pair_->link()->Send(epoch, key, {}, {bytes});
  }
  absl::StatusOr<ReceivedTransfer> Receive(const TransferKey& key,
                                           int64_t epoch = 1) {
    return pair_->inbox()->Receive(epoch, StagePair::kSender, key);
  }
  // Receives a transfer, and returns its bytes, or the error.
  std::string ReceiveBytes(const TransferKey& key, int64_t epoch = 1);
  // Sends as many transfers of step 0 as the route of ACTIVATION has slots.
  void FillSlots();

  std::unique_ptr<TransferPlan> plan_;
  std::unique_ptr<StagePair> pair_;
};

// Returns the key of a transfer at boundary 0.
TransferKey KeyAt(int64_t step, int32_t micro_batch,
                  StageTransfer::Kind kind = StageTransfer::ACTIVATION);

// Returns `count` bytes that differ for each seed.
std::string BytesOf(int64_t seed, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_LINK_CONFORMANCE_H_
