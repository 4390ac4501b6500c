#include "tests/faults/misdeeds.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/stream/message_stream.h"

namespace tributary {
namespace {

const std::vector<JobKind> kServerKinds = {
    JobKind::kSynchronous, JobKind::kTwoServers, JobKind::kReplicas,
    JobKind::kLocalSteps, JobKind::kStale};
const std::vector<JobKind> kSomeKinds = {
    JobKind::kSynchronous, JobKind::kReplicas, JobKind::kLocalSteps};
const std::vector<JobKind> kEvaluatingKinds = {
    JobKind::kSynchronous, JobKind::kAsynchronous, JobKind::kAllReduce};
const std::vector<JobKind> kFewKinds = {JobKind::kSynchronous,
                                        JobKind::kTwoServers};
const std::vector<JobKind> kOnlySynchronous = {JobKind::kSynchronous};
const std::vector<JobKind> kOnlyAsynchronous = {JobKind::kAsynchronous};
const std::vector<JobKind> kAllKinds = {
    JobKind::kSynchronous, JobKind::kTwoServers, JobKind::kReplicas,
    JobKind::kLocalSteps,  JobKind::kStale,      JobKind::kAsynchronous,
    JobKind::kAllReduce};

using Change = std::function<void(Contribution*)>;

// The worker drops reports of this kind.
std::function<Lies(int64_t)> WithoutReport(WorkerReport::ReportCase kind) {
  return [kind](int64_t) {
    Lies lies;
    lies.report = [kind](WorkerReport* report) {
      return report->report_case() != kind;
    };
    return lies;
  };
}

// The worker drops its contributions, and shows this phase in its heartbeats.
std::function<Lies(int64_t)> WithoutContributions(const std::string& phase) {
  return [phase](int64_t from) {
    Lies lies;
    lies.report = [phase, from](WorkerReport* report) {
      Heartbeat* const beat =
          report->has_heartbeat() ? report->mutable_heartbeat() : nullptr;
      if (beat == nullptr || beat->step() < from) return true;
      if (!phase.empty()) beat->set_phase(phase);
      // An honest worker that computes shows it.
      beat->mutable_statistics()->set_leaves(0);
      return true;
    };
    lies.message = [from](WorkerMessage* message, OutgoingPayload*,
                          const Lies::Send&, LyingNetwork*) {
      return !message->has_contribution() ||
             message->contribution().step() < from;
    };
    return lies;
  };
}

// The worker changes its contributions.
std::function<Lies(int64_t)> Contributing(Change change) {
  return [change = std::move(change)](int64_t from) {
    Lies lies;
    lies.message = [change, from](WorkerMessage* message, OutgoingPayload*,
                                  const Lies::Send&, LyingNetwork*) {
      if (message->has_contribution() &&
          message->contribution().step() >= from) {
        change(message->mutable_contribution());
      }
      return true;
    };
    return lies;
  };
}

// The worker changes its reports.
std::function<Lies(int64_t)> Reporting(
    std::function<void(WorkerReport*)> change) {
  return [change = std::move(change)](int64_t) {
    Lies lies;
    lies.report = [change](WorkerReport* report) {
      change(report);
      return true;
    };
    return lies;
  };
}

// Replaces all elements of a gradient by `value`.
void Fill(float value, OutgoingPayload* payload) {
  const auto values = std::make_shared<std::vector<float>>(
      payload->bytes / int64_t{sizeof(float)}, value);
  payload->data = values->data();
  payload->owner = values;
}

Lies NanGradient(int64_t from) {
  Lies lies;
  lies.message = [from](WorkerMessage* message, OutgoingPayload* payload,
                        const Lies::Send&, LyingNetwork*) {
    if (message->has_contribution() && message->contribution().step() >= from) {
      Fill(std::nanf(""), payload);
    }
    return true;
  };
  return lies;
}

Lies ShortPayload(int64_t from) {
  Lies lies;
  lies.message = [from](WorkerMessage* message, OutgoingPayload* payload,
                        const Lies::Send&, LyingNetwork*) {
    if (message->has_contribution() && message->contribution().step() >= from) {
      payload->bytes -= int64_t{sizeof(float)};
    }
    return true;
  };
  return lies;
}

// Contributes wrong numbers to one of the micro-batches of a node, which is
// accepted, and then an invalid contribution to the node.
Lies WrongNumbersFirst(int64_t from) {
  Lies lies;
  lies.message = [from](WorkerMessage* message, OutgoingPayload* payload,
                        const Lies::Send& send, LyingNetwork*) {
    if (!message->has_contribution() || message->contribution().step() < from) {
      return true;
    }
    Contribution* const whole = message->mutable_contribution();
    // Node 7 of 8 leaves has the last two. The last chunk has gaps, which must
    // be 0.
    if (whole->node() != 7 || whole->chunk() != 0) return true;
    WorkerMessage part = *message;
    part.mutable_contribution()->set_node(14);
    part.mutable_contribution()->set_weight(whole->weight() / 2);
    OutgoingPayload wrong = *payload;
    Fill(100, &wrong);
    send(part, wrong);
    whole->set_weight(whole->weight() + 1);
    return true;
  };
  return lies;
}

Lies OneChunkMissing(int64_t from) {
  Lies lies;
  lies.message = [from](WorkerMessage* message, OutgoingPayload*,
                        const Lies::Send&, LyingNetwork*) {
    return !message->has_contribution() ||
           message->contribution().step() < from ||
           message->contribution().chunk() != 1;
  };
  lies.report = [from](WorkerReport* report) {
    if (report->has_heartbeat() && report->heartbeat().step() >= from) {
      report->mutable_heartbeat()->mutable_statistics()->set_leaves(0);
    }
    return true;
  };
  return lies;
}

Lies NoInitialWeights(bool claims) {
  Lies lies;
  lies.message = [claims](WorkerMessage* message, OutgoingPayload*,
                          const Lies::Send&, LyingNetwork* network) {
    if (!message->has_initial()) return true;
    if (claims && message->initial().chunk() == 0) {
      WorkerReport synced;
      synced.mutable_synced();
      network->Report(synced);
    }
    return false;
  };
  return lies;
}

std::function<Lies(int64_t)> Greeting(std::function<void(Hello*)> change) {
  return [change = std::move(change)](int64_t) {
    Lies lies;
    lies.message = [change](WorkerMessage* message, OutgoingPayload*,
                            const Lies::Send&, LyingNetwork*) {
      if (message->has_hello()) change(message->mutable_hello());
      return true;
    };
    return lies;
  };
}

Lies ForgedAssignment(int64_t) {
  Lies lies;
  lies.message = [](WorkerMessage* message, OutgoingPayload*, const Lies::Send&,
                    LyingNetwork*) {
    if (message->has_assigned()) message->mutable_assigned()->set_leaf_begin(0);
    return true;
  };
  return lies;
}

Lies TwoHellos(int64_t) {
  Lies lies;
  lies.message = [](WorkerMessage* message, OutgoingPayload*,
                    const Lies::Send& send, LyingNetwork*) {
    if (message->has_hello()) send(*message, OutgoingPayload());
    return true;
  };
  return lies;
}

}  // namespace

std::vector<Misdeed> AllMisdeeds(int64_t pieces) {
  constexpr bool kLater = true;
  return {
      {"sends no Ready", kAllKinds, false, ExpectedEnd::kHonest,
       WithoutReport(WorkerReport::kReady)},
      {"sends no Synced", kFewKinds, false, ExpectedEnd::kHonest,
       WithoutReport(WorkerReport::kSynced)},
      {"sends no initial weights", kSomeKinds, false, ExpectedEnd::kNamed,
       [](int64_t) { return NoInitialWeights(/*claims=*/false); }},
      {"claims to have sent the initial weights", kFewKinds, false,
       ExpectedEnd::kNamed,
       [](int64_t) { return NoInitialWeights(/*claims=*/true); }},
      {"contributes nothing", kSomeKinds, kLater, ExpectedEnd::kNamed,
       WithoutContributions("")},
      {"contributes nothing and claims to wait", kFewKinds, kLater,
       ExpectedEnd::kNamed, WithoutContributions("exchange")},
      {"contributes nothing and claims to evaluate", kFewKinds, kLater,
       ExpectedEnd::kNamed, WithoutContributions("evaluate")},
      {"leases steps and contributes nothing", kOnlyAsynchronous, kLater,
       ExpectedEnd::kNamed, WithoutContributions("")},
      {"does not contribute to one chunk", kFewKinds, kLater,
       ExpectedEnd::kNamed, OneChunkMissing},
      {"does not evaluate", kEvaluatingKinds, false, ExpectedEnd::kNamed,
       WithoutReport(WorkerReport::kEvaluation)},
      {"reports pieces of another worker", kFewKinds, false,
       ExpectedEnd::kNamed, Reporting([pieces](WorkerReport* report) {
         if (!report->has_evaluation()) return;
         EvaluationReport* const result = report->mutable_evaluation();
         result->set_piece(pieces - 1 - result->piece());
       })},
      {"reports more correct samples than there are",
       {JobKind::kSynchronous, JobKind::kAllReduce},
       false,
       ExpectedEnd::kNamed,
       Reporting([](WorkerReport* report) {
         if (!report->has_evaluation()) return;
         report->mutable_evaluation()->set_correct(1000);
       })},
      {"reports an infinite time",
       {JobKind::kSynchronous, JobKind::kAsynchronous, JobKind::kAllReduce},
       false,
       ExpectedEnd::kNamed,
       Reporting([](WorkerReport* report) {
         if (!report->has_heartbeat()) return;
         report->mutable_heartbeat()->mutable_statistics()->set_leaf_seconds(
             std::numeric_limits<double>::infinity());
       })},
      {"does not save its state",
       {JobKind::kAllReduce},
       false,
       ExpectedEnd::kNamed,
       WithoutReport(WorkerReport::kSaved)},
      {"uses the incarnation of another worker", kFewKinds, false,
       ExpectedEnd::kFails, Greeting([](Hello* hello) {
         hello->set_incarnation(hello->incarnation() + 1);
       })},
      {"shows an assignment that it has not got", kFewKinds, false,
       ExpectedEnd::kNamed, ForgedAssignment},
      {"sends Hello twice", kOnlySynchronous, false, ExpectedEnd::kNamed,
       TwoHellos},
      {"contributes to nodes of others", kServerKinds, kLater,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_node(1); })},
      {"contributes a part of a batch", kOnlyAsynchronous, kLater,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_node(2); })},
      {"computes from a version of the future", kOnlyAsynchronous, false,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_base_version(1000); })},
      {"has a wrong sample count", kServerKinds, kLater, ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_weight(c->weight() + 1); })},
      {"contributes wrong numbers, then an invalid message",
       {JobKind::kSynchronous, JobKind::kTwoServers, JobKind::kReplicas,
        JobKind::kLocalSteps},
       kLater,
       ExpectedEnd::kNamed,
       WrongNumbersFirst},
      {"contributes to a step of the future", kFewKinds, kLater,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_step(c->step() + 1000); })},
      {"contributes to a negative step", kOnlySynchronous, false,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_step(-1); })},
      {"uses another encoding", kFewKinds, false, ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_encoding(FLOAT16); })},
      {"contributes to a chunk that is not there", kFewKinds, false,
       ExpectedEnd::kNamed,
       Contributing([](Contribution* c) { c->set_chunk(99); })},
      {"sends a payload that is too short", kFewKinds, false,
       ExpectedEnd::kNamed, ShortPayload},
      {"has an infinite loss", kServerKinds, kLater, ExpectedEnd::kNamed,
       Contributing([](Contribution* c) {
         c->set_loss_sum(std::numeric_limits<double>::infinity());
       })},
      {"has gradients that are not numbers", kServerKinds, kLater,
       ExpectedEnd::kFails, NanGradient},
  };
}

}  // namespace tributary
