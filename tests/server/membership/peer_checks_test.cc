#include "server/membership/peer_checks.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

ParameterTable Table(int64_t padding) {
  ParameterTable table;
  table.set_chunk_elements(16);
  ParameterTable::Parameter* parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(8);
  parameter->set_group(DECAY);
  parameter->set_padding(padding);
  return table;
}

TEST(PeerChecksTest, NamesAParameterThatDiffersInItsPaddingOnly) {
  const absl::Status status =
      CheckModel(Table(/*padding=*/4), *ArenaLayout::Create(Table(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter 0 is a [8] DECAY with padding 4, expected "
                        "a [8] DECAY"));
}

}  // namespace
}  // namespace tributary
