// Common base of the tests of all work states.
#ifndef TRIBUTARY_TESTS_WORKER_STATE_WORK_STATE_FIXTURE_H_
#define TRIBUTARY_TESTS_WORKER_STATE_WORK_STATE_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "common/parameters/arena_layout.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// Provides a model of three chunks of 16 elements and a job of four
// micro-batches. Each test creates `state_`.
class WorkStateFixture : public ::testing::Test {
 protected:
  static constexpr int kChunks = 3;

  explicit WorkStateFixture(int64_t pieces) : pieces_(pieces) {
    ParameterTable table;
    table.set_chunk_elements(16);
    for (const char* name : {"a", "b", "c"}) {
      auto* parameter = table.add_parameter();
      parameter->set_name(name);
      parameter->add_shape(16);
      parameter->set_group(DECAY);
    }
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
  }

  // Delivers a version of a chunk, as the exchange does. Returns the result of
  // BeginWrite.
  WorkState::Arrival Arrive(int chunk, int64_t version) {
    float* to = nullptr;
    const WorkState::Arrival arrival = state_->BeginWrite(chunk, version, &to);
    if (arrival == WorkState::Arrival::kWrite) {
      std::fill_n(to, 16, Value(chunk, version));
      state_->EndWrite(chunk, version);
    }
    return arrival;
  }
  void ArriveAll(int64_t version) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      EXPECT_EQ(Arrive(chunk, version), WorkState::Arrival::kWrite);
    }
  }
  // Returns the value of every element of a chunk at a version.
  static float Value(int chunk, int64_t version) {
    return static_cast<float>(100 * version + chunk);
  }

  // Assigns micro-batches [begin, end), and all evaluation pieces or the first
  // `pieces`.
  void SetAssignment(int64_t generation, int begin, int end) {
    SetAssignment(generation, begin, end, pieces_);
  }
  void SetAssignment(int64_t generation, int begin, int end, int64_t pieces) {
    Deal assignment;
    assignment.set_generation(generation);
    assignment.set_leaf_begin(begin);
    assignment.set_leaf_end(end);
    assignment.set_piece_end(pieces);
    state_->SetAssignment(assignment);
  }

  // Delivers version 0, takes the task kReportSynced, and assigns all four
  // micro-batches.
  void Begin() {
    ArriveAll(0);
    EXPECT_EQ(state_->Next().kind, Task::Kind::kReportSynced);
    SetAssignment(1, 0, 4);
  }

  const int64_t pieces_;  // Number of evaluation pieces in each assignment.
  std::unique_ptr<ArenaLayout> layout_;
  std::unique_ptr<WorkState> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_STATE_WORK_STATE_FIXTURE_H_
