#include "common/job/job_schedule_validation.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job_checks.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// Refuses fields that the schedule's decay does not use.
absl::Status RefuseUnusedFields(const ScheduleSpec& schedule) {
  const ScheduleSpec::Decay decay = schedule.decay();
  const bool repeats =
      decay == ScheduleSpec::STEP || decay == ScheduleSpec::EXPONENTIAL;
  const bool one_cycle = decay == ScheduleSpec::ONE_CYCLE;
  const bool plateau = decay == ScheduleSpec::PLATEAU;
  const struct {
    const char* name;
    bool set;
    bool used;
    const char* decays;  // Those that use the field.
  } fields[] = {
      {"warmup_steps", schedule.warmup_steps() != 0,
       !one_cycle && decay != ScheduleSpec::TABLE,
       "a decay other than ONE_CYCLE and TABLE"},
      {"decay_steps", schedule.decay_steps() != 0, HasEnd(decay),
       "COSINE, LINEAR, POLYNOMIAL or ONE_CYCLE"},
      {"final_learning_rate", schedule.final_learning_rate() != 0,
       HasEnd(decay) || plateau,
       "COSINE, LINEAR, POLYNOMIAL, ONE_CYCLE or PLATEAU"},
      {"decay_every_steps", schedule.has_decay_every_steps(), repeats,
       "STEP or EXPONENTIAL"},
      {"decay_factor", schedule.has_decay_factor(), repeats || plateau,
       "STEP, EXPONENTIAL or PLATEAU"},
      {"power", schedule.has_power(), decay == ScheduleSpec::POLYNOMIAL,
       "POLYNOMIAL"},
      {"rise_share", schedule.has_rise_share(), one_cycle, "ONE_CYCLE"},
      {"rise_divisor", schedule.has_rise_divisor(), one_cycle, "ONE_CYCLE"},
      {"table", schedule.table_size() > 0, decay == ScheduleSpec::TABLE,
       "TABLE"},
      {"metric", schedule.has_metric(), plateau, "PLATEAU"},
      {"patience", schedule.has_patience(), plateau, "PLATEAU"},
      {"threshold", schedule.has_threshold(), plateau, "PLATEAU"},
      {"cooldown", schedule.has_cooldown(), plateau, "PLATEAU"},
  };
  for (const auto& field : fields) {
    if (!field.set || field.used) continue;
    return Error(absl::StrCat("schedule.", field.name), "has no effect with ",
                 ScheduleSpec::Decay_Name(decay),
                 "; leave it out, or set schedule.decay to ", field.decays);
  }
  return absl::OkStatus();
}

absl::Status AtMostPeak(const std::string& path, double rate, double peak) {
  if (rate <= peak) return absl::OkStatus();
  return Error(path, rate, " is above the optimizer's learning rate ", peak);
}

// Checks the fields of decays that have an end.
absl::Status ValidateEnd(const ScheduleSpec& schedule, double peak) {
  if (schedule.decay_steps() != 0 &&
      schedule.decay_steps() <= schedule.warmup_steps()) {
    return Error("schedule.decay_steps", schedule.decay_steps(),
                 " is not above schedule.warmup_steps ",
                 schedule.warmup_steps());
  }
  TRIBUTARY_RETURN_IF_ERROR(Positive("schedule.power", schedule.power()));
  if (!(schedule.rise_share() > 0 && schedule.rise_share() < 1)) {
    return Error("schedule.rise_share", schedule.rise_share(),
                 " is not above 0 and below 1");
  }
  if (!(schedule.rise_divisor() >= 1 && schedule.rise_divisor() <= kMaxScale)) {
    return Error("schedule.rise_divisor", schedule.rise_divisor(),
                 " is not between 1 and ", kMaxScale);
  }
  return AtMostPeak("schedule.final_learning_rate",
                    schedule.final_learning_rate(), peak);
}

// Checks the fields of STEP and EXPONENTIAL.
absl::Status ValidateFactor(const ScheduleSpec& schedule) {
  TRIBUTARY_RETURN_IF_ERROR(Between("schedule.decay_every_steps",
                                    schedule.decay_every_steps(), 1,
                                    kMaxSteps));
  if (!schedule.has_decay_factor()) return Required("schedule.decay_factor");
  const double factor = schedule.decay_factor();
  if (factor > 0 && factor <= 1) return absl::OkStatus();
  return Error("schedule.decay_factor", factor,
               " is not above 0 and at most 1");
}

absl::Status ValidatePlateau(const JobSpec& job, double peak) {
  const ScheduleSpec& schedule = job.schedule();
  const ExchangeTraits traits = ResolveExchange(job);
  if (!traits.one_version_per_round || traits.local_sgd) {
    return Error("schedule.decay",
                 "is PLATEAU, which needs exchange.all_reduce or consistency "
                 "mode synchronous: in other modes, steps do not wait for the "
                 "result of an evaluation; use another decay");
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateFactor(schedule));
  if (schedule.decay_factor() == 1) {
    return Error("schedule.decay_factor", 1,
                 " never lowers the learning rate; set it below 1");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("schedule.patience", schedule.patience(), 0, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("schedule.cooldown", schedule.cooldown(), 0, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(
      BelowOne("schedule.threshold", schedule.threshold()));
  return AtMostPeak("schedule.final_learning_rate",
                    schedule.final_learning_rate(), peak);
}

absl::Status ValidateTable(const ScheduleSpec& schedule, double peak) {
  if (schedule.table().empty()) {
    return Error("schedule.table",
                 "is required: entries such as { step: 0 learning_rate: 0.1 }");
  }
  int64_t before = -1;
  for (int i = 0; i < schedule.table_size(); ++i) {
    const ScheduleSpec::Entry& entry = schedule.table(i);
    const std::string path = absl::StrCat("schedule.table[", i, "]");
    if (i == 0 && entry.step() != 0) {
      return Error(path + ".step", entry.step(),
                   " is not 0, the first step of the job");
    }
    TRIBUTARY_RETURN_IF_ERROR(
        Between(path + ".step", entry.step(), 0, kMaxSteps));
    if (entry.step() <= before) {
      return Error(path + ".step", entry.step(), " is not above ", before,
                   ", the step of the entry before it");
    }
    before = entry.step();
    if (!entry.has_learning_rate()) return Required(path + ".learning_rate");
    TRIBUTARY_RETURN_IF_ERROR(
        NotNegative(path + ".learning_rate", entry.learning_rate()));
    TRIBUTARY_RETURN_IF_ERROR(
        AtMostPeak(path + ".learning_rate", entry.learning_rate(), peak));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSchedule(const JobSpec& job) {
  const ScheduleSpec& schedule = job.schedule();
  TRIBUTARY_RETURN_IF_ERROR(
      Between("schedule.warmup_steps", schedule.warmup_steps(), 0, kMaxSteps));
  if (job.has_steps() && schedule.warmup_steps() > job.steps()) {
    return Error("schedule.warmup_steps", schedule.warmup_steps(),
                 " is more than the job's ", Counted(job.steps(), "step"));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("schedule.decay_steps", schedule.decay_steps(), 0, kMaxSteps));
  TRIBUTARY_RETURN_IF_ERROR(NotNegative("schedule.final_learning_rate",
                                        schedule.final_learning_rate()));
  TRIBUTARY_RETURN_IF_ERROR(RefuseUnusedFields(schedule));
  const double peak = PeakLearningRate(job.optimizer());
  switch (schedule.decay()) {
    case ScheduleSpec::STEP:
    case ScheduleSpec::EXPONENTIAL:
      return ValidateFactor(schedule);
    case ScheduleSpec::TABLE:
      return ValidateTable(schedule, peak);
    case ScheduleSpec::PLATEAU:
      return ValidatePlateau(job, peak);
    default:
      return HasEnd(schedule.decay()) ? ValidateEnd(schedule, peak)
                                      : absl::OkStatus();
  }
}

}  // namespace tributary
