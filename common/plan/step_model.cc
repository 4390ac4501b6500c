#include "common/plan/step_model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace tributary {
namespace {

// Number of simulated steps. The first step starts with all weights present;
// the steps after it are alike.
constexpr int kSteps = 4;

class Simulation {
 public:
  Simulation(const ComputeProfile& profile,
             absl::Span<const int64_t> chunk_elements,
             const ExchangeTimes& times)
      : times_(times),
        chunks_(static_cast<int>(chunk_elements.size())),
        share_(chunks_),
        end_(profile.seconds),
        present_(chunks_, true),
        missing_gradients_(chunks_) {
    const double all = std::max<double>(
        1, std::accumulate(chunk_elements.begin(), chunk_elements.end(), 0.0));
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      share_[chunk] = static_cast<double>(chunk_elements[chunk]) / all;
      moments_.push_back({profile.needed_at[chunk], chunk, /*ready=*/false});
      moments_.push_back({profile.ready_at[chunk], chunk, /*ready=*/true});
    }
    std::sort(moments_.begin(), moments_.end());
  }

  double Run() {
    Resume(/*now=*/0);
    while (!events_.empty() && static_cast<int>(ends_.size()) < kSteps) {
      const Event event = events_.top();
      events_.pop();
      switch (event.what) {
        case What::kCompute:
          Compute(event.time);
          break;
        case What::kUp:
          link_up().busy = false;
          ArriveAtServer(event.chunk);
          break;
        case What::kPass:
          pass_.busy = false;
          link_down().queue.push({What::kDown, event.chunk});
          break;
        case What::kDown:
          link_down().busy = false;
          ArriveAtWorker(event.chunk, event.time);
          break;
      }
      for (Resource& resource : links_) Serve(&resource, event.time);
      Serve(&pass_, event.time);
    }
    return ends_.size() < 2 ? end_ : ends_.back() - ends_[ends_.size() - 2];
  }

 private:
  enum class What { kDown, kUp, kPass, kCompute };
  struct Event {
    double time;
    What what;
    int chunk;
    bool operator>(const Event& other) const {
      return std::tie(time, what, chunk) >
             std::tie(other.time, other.what, other.chunk);
    }
  };
  // An event at a fixed point of the worker's computation.
  struct Moment {
    double at;
    int chunk;
    bool ready;
    bool operator<(const Moment& other) const {
      return std::tie(at, ready, chunk) <
             std::tie(other.at, other.ready, other.chunk);
    }
  };
  struct Job {
    What what;
    int chunk;
    // Chunks of earlier layers have priority.
    bool operator>(const Job& other) const {
      return std::tie(chunk, what) > std::tie(other.chunk, other.what);
    }
  };
  struct Resource {
    bool busy = false;
    std::priority_queue<Job, std::vector<Job>, std::greater<Job>> queue;
  };

  Resource& link_up() { return links_[0]; }
  Resource& link_down() { return links_[times_.shared_link ? 0 : 1]; }

  double Seconds(const Job& job) const {
    switch (job.what) {
      case What::kUp:
        return times_.up * share_[job.chunk];
      case What::kPass:
        return times_.pass * share_[job.chunk];
      case What::kDown:
        return times_.down * share_[job.chunk];
      case What::kCompute:
        break;
    }
    return 0;
  }

  void Serve(Resource* resource, double now) {
    if (resource->busy || resource->queue.empty()) return;
    const Job job = resource->queue.top();
    resource->queue.pop();
    resource->busy = true;
    events_.push({now + Seconds(job), job.what, job.chunk});
  }

  void ArriveAtServer(int chunk) {
    --missing_gradients_;
    if (!times_.update_waits_for_all) {
      pass_.queue.push({What::kPass, chunk});
    } else if (missing_gradients_ == 0) {
      for (int c = 0; c < chunks_; ++c) pass_.queue.push({What::kPass, c});
    }
    if (missing_gradients_ == 0) missing_gradients_ = chunks_;
  }

  void ArriveAtWorker(int chunk, double now) {
    present_[chunk] = true;
    if (waiting_for_ == chunk) {
      waiting_for_ = -1;
      Resume(now);
    }
  }

  // Computes until the worker's next event.
  void Resume(double now) {
    const double to = next_ < moments_.size() ? moments_[next_].at : end_;
    events_.push({now + to - worked_, What::kCompute, -1});
    worked_ = to;
  }

  void Compute(double now) {
    if (next_ == moments_.size()) {
      ends_.push_back(now);
      next_ = 0;
      worked_ = 0;
      Resume(now);
      return;
    }
    const Moment& moment = moments_[next_];
    if (!moment.ready && !present_[moment.chunk]) {
      waiting_for_ = moment.chunk;
      ++next_;
      return;
    }
    ++next_;
    if (moment.ready) {
      present_[moment.chunk] = false;
      link_up().queue.push({What::kUp, moment.chunk});
    }
    Resume(now);
  }

  const ExchangeTimes times_;
  const int chunks_;
  std::vector<double> share_;  // Indexed by chunk.
  std::vector<Moment> moments_;
  const double end_;

  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  Resource links_[2];
  Resource pass_;
  // Indexed by chunk: true if the worker has received the weights for the next
  // forward.
  std::vector<bool> present_;
  int missing_gradients_;
  size_t next_ = 0;    // Index into moments_.
  double worked_ = 0;  // Computing time spent in this step.
  int waiting_for_ = -1;
  std::vector<double> ends_;  // End times of the steps.
};

}  // namespace

ComputeProfile EvenProfile(double seconds,
                           absl::Span<const int64_t> chunk_elements,
                           double forward_share) {
  ComputeProfile profile;
  profile.seconds = seconds;
  const double all = std::max<double>(
      1, std::accumulate(chunk_elements.begin(), chunk_elements.end(), 0.0));
  double before = 0;
  for (const int64_t elements : chunk_elements) {
    const double part = before / all;
    profile.needed_at.push_back(seconds * forward_share * part);
    profile.ready_at.push_back(seconds * (1 - (1 - forward_share) * part));
    before += static_cast<double>(elements);
  }
  return profile;
}

ComputeProfile Stretch(ComputeProfile profile, double factor) {
  profile.seconds *= factor;
  for (double& at : profile.needed_at) at *= factor;
  for (double& at : profile.ready_at) at *= factor;
  return profile;
}

double StepSeconds(const ComputeProfile& profile,
                   absl::Span<const int64_t> chunk_elements,
                   const ExchangeTimes& times) {
  return Simulation(profile, chunk_elements, times).Run();
}

}  // namespace tributary
