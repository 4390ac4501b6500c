#include "server/service/weights_service.h"

#include <memory>
#include <string>

#include "server/membership/member_secrets.h"

namespace tributary {

ServedWeights ServedBy(UpdateEngine* engine, const Configure& configure,
                       const std::function<void(const ServerReport&)>& report) {
  ServedWeights served;
  served.engine = engine;
  served.job_id = configure.job_id();
  served.attempt = configure.attempt();
  served.secrets =
      std::make_shared<const MemberSecrets>(configure.secret_key());
  served.on_violation = [report](int64_t incarnation,
                                 const absl::Status& status) {
    ServerReport violation;
    violation.mutable_violation()->set_incarnation(incarnation);
    violation.mutable_violation()->set_message(std::string(status.message()));
    report(violation);
  };
  return served;
}

}  // namespace tributary
