#include "server/process/local_link.h"

#include "absl/strings/str_cat.h"

namespace tributary {

void LocalLink::Send(const ServerOrder& order) {
  const absl::Status status = server_->Handle(order);
  if (status.ok()) return;
  log_->WriteLater(LogLevel::kError,
                   absl::StrCat("order refused: ", status.ToString()));
}

}  // namespace tributary
