#include "ratings.h"

#include "tributary/worker.h"

namespace {

constexpr int kTastes = 3;

// Returns a number in [-1, 1) that depends on the arguments only.
float Draw(uint32_t purpose, int64_t index, int number) {
  tributary::Random random(/*seed=*/2024, purpose, static_cast<uint32_t>(index),
                           static_cast<uint32_t>(number));
  return 2 * random.Uniform() - 1;
}

Rating Generate(uint32_t purpose, int64_t index) {
  Rating rating;
  rating.user = static_cast<int>((Draw(purpose, index, 0) + 1) / 2 * kUsers);
  rating.movie = static_cast<int>((Draw(purpose, index, 1) + 1) / 2 * kMovies);
  rating.stars = 3 + Draw(purpose, index, 2) / 4;  // Noise.
  for (int taste = 0; taste < kTastes; ++taste) {
    rating.stars += Draw(/*purpose=*/100, rating.user, taste) *
                    Draw(/*purpose=*/101, rating.movie, taste);
  }
  return rating;
}

}  // namespace

Rating TrainingRating(int64_t index) { return Generate(102, index); }
Rating HeldOutRating(int64_t index) { return Generate(103, index); }
