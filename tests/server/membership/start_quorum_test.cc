#include "server/membership/start_quorum.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr absl::Duration kTimeout = absl::Seconds(60);

class StartQuorumTest : public testing::Test {
 protected:
  static Member MakeMember(int64_t incarnation, bool ranked = false) {
    Member member;
    member.incarnation = incarnation;
    member.rank = static_cast<int>(incarnation) - 1;
    member.ranked = ranked;
    member.host = absl::StrCat("host-", incarnation);
    member.pid = 100 + incarnation;
    return member;
  }

  static Ready MakeReady(uint64_t fingerprint) {
    Ready ready;
    ready.mutable_data()->set_train_samples(64);
    ready.mutable_data()->set_fingerprint(fingerprint);
    return ready;
  }

  // Has the parameters weight [1] and bias [outputs].
  static Ready MakeReadyWithModel(int64_t outputs) {
    Ready ready = MakeReady(/*fingerprint=*/5);
    ParameterTable* const table = ready.mutable_table();
    table->set_chunk_elements(16);
    for (const auto& [name, length] :
         {std::pair("weight", int64_t{1}), std::pair("bias", outputs)}) {
      ParameterTable::Parameter* const parameter = table->add_parameter();
      parameter->set_name(name);
      parameter->add_shape(length);
      parameter->set_group(DECAY);
    }
    return ready;
  }

  void Add(int64_t incarnation, uint64_t fingerprint,
           const std::string& signature = "model") {
    quorum_->Add(MakeMember(incarnation), MakeReady(fingerprint), signature,
                 now_);
  }

  void Make(int expected, bool data_known = false, int most = 1) {
    quorum_.emplace(expected, most, kTimeout, data_known);
  }

  // Nobody has decided yet.
  bool IsOpen() {
    const auto decided = quorum_->Decide(now_);
    EXPECT_TRUE(decided.ok()) << decided.status();
    return decided.ok() && !decided->has_value();
  }

  StartQuorum::Decision Decided() {
    const auto decided = quorum_->Decide(now_);
    EXPECT_TRUE(decided.ok()) << decided.status();
    if (!decided.ok() || !decided->has_value()) {
      ADD_FAILURE() << "not decided";
      return {};
    }
    return **decided;
  }

  absl::Time now_ = absl::UnixEpoch();
  std::optional<StartQuorum> quorum_;
};

TEST_F(StartQuorumTest, TheOnlyExpectedWorkerDecides) {
  Make(/*expected=*/1);
  EXPECT_TRUE(IsOpen());
  Add(1, 5);
  const StartQuorum::Decision decision = Decided();
  EXPECT_EQ(decision.ready.data().fingerprint(), 5u);
  EXPECT_EQ(decision.whose, "worker 0 (host host-1, process 101)");
  EXPECT_TRUE(decision.outvoted.empty());
}

TEST_F(StartQuorumTest, TheMajorityDecidesThoughTheOddOneCameFirst) {
  Make(/*expected=*/3);
  Add(1, 5);
  EXPECT_TRUE(IsOpen());
  Add(2, 7);
  EXPECT_TRUE(IsOpen());
  Add(3, 7);
  const StartQuorum::Decision decision = Decided();
  EXPECT_EQ(decision.ready.data().fingerprint(), 7u);
  EXPECT_EQ(decision.whose, "worker 1 (host host-2, process 102) and 1 more");
  EXPECT_THAT(decision.outvoted, ElementsAre(Pair(1, testing::_)));
}

TEST_F(StartQuorumTest, DoesNotWaitForWorkersThatCannotChangeTheMajority) {
  Make(/*expected=*/5);
  for (int64_t i = 1; i <= 2; ++i) Add(i, 7);
  EXPECT_TRUE(IsOpen());
  Add(3, 7);
  EXPECT_EQ(Decided().ready.data().fingerprint(), 7u);
  EXPECT_EQ(quorum_->awaited(), 5);
}

TEST_F(StartQuorumTest, ATieNamesBothWorkersAndTheirData) {
  Make(/*expected=*/2);
  Add(1, 5);
  Add(2, 7);
  const auto decided = quorum_->Decide(now_);
  EXPECT_EQ(decided.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(decided.status().message());
  EXPECT_THAT(message, HasSubstr("worker 0 (host host-1, process 101) has 64 "
                                 "training samples, 0 evaluation pieces, "
                                 "fingerprint 5"));
  EXPECT_THAT(message, HasSubstr("worker 1 (host host-2, process 102) has 64 "
                                 "training samples, 0 evaluation pieces, "
                                 "fingerprint 7"));
  EXPECT_THAT(message, HasSubstr("copy the same files"));
}

TEST_F(StartQuorumTest, ATieNamesTheFirstParameterThatDiffers) {
  Make(/*expected=*/2);
  quorum_->Add(MakeMember(1), MakeReadyWithModel(/*outputs=*/2), "two", now_);
  quorum_->Add(MakeMember(2), MakeReadyWithModel(/*outputs=*/3), "three", now_);
  EXPECT_THAT(std::string(quorum_->Decide(now_).status().message()),
              HasSubstr("whose parameter 1 is bias [3] DECAY, expected bias "
                        "[2] DECAY: copy the same files"));
}

TEST_F(StartQuorumTest, OtherModelsDisagreeToo) {
  Make(/*expected=*/3);
  Add(1, 5, "other");
  Add(2, 5);
  Add(3, 5);
  EXPECT_THAT(Decided().outvoted, ElementsAre(Pair(1, testing::_)));
}

TEST_F(StartQuorumTest, ThoseThatAreReadyDecideWhenTheTimeIsOver) {
  Make(/*expected=*/4);
  Add(1, 5);
  now_ += kTimeout - absl::Seconds(1);
  Add(2, 5);
  EXPECT_TRUE(IsOpen());
  now_ += absl::Seconds(1);
  EXPECT_EQ(Decided().ready.data().fingerprint(), 5u);
  EXPECT_EQ(quorum_->awaited(), 2);
}

TEST_F(StartQuorumTest, WhoCannotTakePartIsNotWaitedFor) {
  Make(/*expected=*/3);
  quorum_->Refuse(MakeMember(1));
  Add(2, 5);
  EXPECT_TRUE(IsOpen());
  quorum_->Refuse(MakeMember(3));
  EXPECT_EQ(Decided().ready.data().fingerprint(), 5u);
  EXPECT_EQ(quorum_->awaited(), 1);
  EXPECT_FALSE(quorum_->all_refused());
}

TEST_F(StartQuorumTest, AWorkerWithARankIsRefusedOnceHoweverOftenItComes) {
  Make(/*expected=*/2);
  Member member = MakeMember(1, /*ranked=*/true);
  for (int64_t incarnation = 1; incarnation <= 5; ++incarnation) {
    member.incarnation = incarnation;
    quorum_->Refuse(member);
  }
  EXPECT_FALSE(quorum_->all_refused());
  quorum_->Add(member, MakeReady(5), "model", now_);
  EXPECT_EQ(quorum_->awaited(), 2);
  quorum_->Refuse(member);
  quorum_->Refuse(MakeMember(6));  // Of no rank of its own.
  EXPECT_TRUE(quorum_->all_refused());
}

TEST_F(StartQuorumTest, AllAreRefusedOnceNoFurtherWorkerMayCome) {
  Make(/*expected=*/1, /*data_known=*/false, /*most=*/2);
  quorum_->Refuse(MakeMember(1));
  EXPECT_FALSE(quorum_->all_refused());
  quorum_->Refuse(MakeMember(2));
  EXPECT_TRUE(quorum_->all_refused());
}

TEST_F(StartQuorumTest, WhoHasLeftHasNoSay) {
  Make(/*expected=*/2);
  Add(1, 5);
  quorum_->Remove(1);
  Add(2, 7);
  EXPECT_TRUE(IsOpen());
  Add(3, 7);
  EXPECT_EQ(Decided().ready.data().fingerprint(), 7u);
}

TEST_F(StartQuorumTest, TheFirstOneWillDoWhereTheDataAreKnown) {
  Make(/*expected=*/3, /*data_known=*/true);
  Add(1, 5);
  EXPECT_EQ(Decided().ready.data().fingerprint(), 5u);
  EXPECT_EQ(quorum_->awaited(), 3);
}

}  // namespace
}  // namespace tributary
