#include "tests/simulation/world/streams.h"

namespace tributary::simulation {

std::string* PayloadField(WorkerMessage* message) {
  if (message->has_initial()) {
    return message->mutable_initial()->mutable_payload();
  }
  if (message->has_rows_request()) {
    return message->mutable_rows_request()->mutable_payload();
  }
  if (message->has_row_contribution()) {
    return message->mutable_row_contribution()->mutable_payload();
  }
  return message->has_contribution()
             ? message->mutable_contribution()->mutable_payload()
             : nullptr;
}

std::string* PayloadField(ServerMessage* message) {
  if (message->has_rows()) return message->mutable_rows()->mutable_payload();
  return message->has_weights() ? message->mutable_weights()->mutable_payload()
                                : nullptr;
}

std::string* PayloadField(JournalMessage* message) {
  if (message->has_rows()) return message->mutable_rows()->mutable_payload();
  return message->has_part() ? message->mutable_part()->mutable_payload()
                             : nullptr;
}

std::string* PayloadField(StageMessage* message) {
  return message->has_transfer()
             ? message->mutable_transfer()->mutable_payload()
             : nullptr;
}

}  // namespace tributary::simulation
