#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_REPLAY_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_REPLAY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tributary {

// The operation codes of Optuna's journal files.
enum class JournalOperation {
  kCreateStudy = 0,
  kDeleteStudy = 1,
  kSetStudyUserAttribute = 2,
  kSetStudySystemAttribute = 3,
  kCreateTrial = 4,
  kSetTrialParameter = 5,
  kSetTrialState = 6,
  kSetTrialIntermediateValue = 7,
  kSetTrialUserAttribute = 8,
  kSetTrialSystemAttribute = 9,
  kDiscardTrials = 10,
};

// The states of trials, with the numbers of Optuna's TrialState.
enum class JournalState {
  kRunning = 0,
  kComplete = 1,
  kPruned = 2,
  kFailed = 3,
  kWaiting = 4,
};

struct JournalTrial {
  int64_t id = 0;  // In the file, over all of its studies.
  JournalState state = JournalState::kRunning;
  // By name: the internal value (a choice's index) and the distribution, which
  // is JSON.
  std::map<std::string, double> parameters;
  std::map<std::string, std::string> distributions;
  std::vector<double> values;                     // Of a trial that has ended.
  std::map<int64_t, double> intermediate_values;  // By step.
  nlohmann::ordered_json user_attributes = nlohmann::ordered_json::object();
  nlohmann::ordered_json system_attributes = nlohmann::ordered_json::object();
  std::string began, ended;  // In ISO 8601; empty if not known.

  bool finished() const {
    return state != JournalState::kRunning && state != JournalState::kWaiting;
  }
};

// A change of the study that others may have to act on.
struct JournalEvent {
  enum class Kind {
    kStudyAttribute,
    kCreated,
    kIntermediateValue,
    kState,
    kDeleted,  // The study, with its trials. One of its name may follow.
  };
  Kind kind = Kind::kCreated;
  int64_t trial = 0;      // The trial's number in its study.
  int64_t step = 0;       // kIntermediateValue.
  std::string attribute;  // kStudyAttribute: its name.
};

// The state of one study of a journal file of Optuna, which a line of JSON
// describes for each operation. As in Optuna, operations on trials that do not
// exist or have ended have no effect. Not thread-safe.
class JournalReplay {
 public:
  // `study` is the name of the study; empty: the first one of the file.
  explicit JournalReplay(std::string study) : wanted_(std::move(study)) {}

  // Applies one line of the file, without its line end, and appends what it has
  // changed to `*events`. Returns DataLoss if it is not an operation.
  absl::Status Apply(absl::string_view line, std::vector<JournalEvent>* events);

  // True if the file contains the study, and it was not deleted.
  bool exists() const { return study_ >= 0; }
  int64_t study_id() const { return study_; }
  const std::string& name() const { return name_; }
  // By objective: 1 to minimize, 2 to maximize.
  const std::vector<int>& directions() const { return directions_; }
  const nlohmann::ordered_json& user_attributes() const {
    return user_attributes_;
  }
  const std::vector<JournalTrial>& trials() const { return trials_; }

 private:
  void CreateStudy(const nlohmann::ordered_json& line);
  void CreateTrial(const nlohmann::ordered_json& line,
                   std::vector<JournalEvent>* events);
  void ChangeTrial(JournalOperation operation,
                   const nlohmann::ordered_json& line,
                   std::vector<JournalEvent>* events);

  const std::string wanted_;
  std::string name_;
  int64_t study_ = -1;
  int64_t created_ = 0;  // Number of studies that the file has created.
  std::map<int64_t, std::string> studies_;  // Names, by id, if not deleted.
  std::vector<int> directions_;
  nlohmann::ordered_json user_attributes_ = nlohmann::ordered_json::object();
  std::vector<JournalTrial> trials_;
  // By the trial's id in the file: its number in the study, or -1.
  std::vector<int64_t> numbers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_REPLAY_H_
