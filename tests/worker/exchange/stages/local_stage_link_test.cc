#include "worker/exchange/stages/local_stage_link.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/worker/exchange/stages/stage_link_conformance.h"
#include "tests/worker/exchange/stages/stage_pair.h"

namespace tributary {
namespace {

class LocalPair final : public StagePair {
 public:
  explicit LocalPair(const TransferPlan& plan)
      : link_(std::make_unique<LocalStageLink>(&plan, kSender, &inbox_)) {
    inbox_.BeginEpoch(1, 0);
    link_->BeginEpoch(1, 0);
  }

  StageLink* link() override { return link_.get(); }
  TransferInbox* inbox() override { return &inbox_; }
  void LoseSender() override { link_.reset(); }
  // A receiver of the same process is lost if its owner says so.
  void LoseReceiver() override {
    link_->Cancel(absl::UnavailableError("lost the receiver"));
  }

 private:
  TransferInbox inbox_;
  std::unique_ptr<LocalStageLink> link_;
};

const StageTransport kLocal = {
    "Local", [](const TransferPlan& plan) -> std::unique_ptr<StagePair> {
      return std::make_unique<LocalPair>(plan);
    }};

INSTANTIATE_TEST_SUITE_P(InOneProcess, StageLinkConformance,
                         testing::Values(kLocal), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(LocalStageLinkTest, TransfersOutliveTheLink) {
  const TransferPlan plan =
      *TransferPlan::Create({{0, StageTransfer::ACTIVATION, 100, 2}}, 1);
  TransferInbox inbox;
  inbox.BeginEpoch(1, 0);
  auto link = std::make_unique<LocalStageLink>(&plan, 3, &inbox);
  ASSERT_TRUE(link->Send(1, KeyAt(0, 0), {}, {"kept"}).ok());
  link.reset();
  const auto received = inbox.Receive(1, 3, KeyAt(0, 0));
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(absl::string_view(received->data, 4), "kept");
}

}  // namespace
}  // namespace tributary
