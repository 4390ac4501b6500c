#include "factorization.h"

#include <algorithm>
#include <cmath>

#include "ratings.h"

namespace {

float ErrorOf(const Rating& rating, int rank, const Factors& factors) {
  float stars = 3;
  for (int i = 0; i < rank; ++i) {
    stars += factors.users[rating.user * rank + i] *
             factors.movies[rating.movie * rank + i];
  }
  return stars - rating.stars;
}

}  // namespace

double ComputeGradients(absl::Span<const int64_t> indexes, int rank,
                        const Factors& factors, const Gradients& gradients) {
  std::fill(gradients.users.begin(), gradients.users.end(), 0.0f);
  std::fill(gradients.movies.begin(), gradients.movies.end(), 0.0f);
  double loss = 0;
  for (const int64_t index : indexes) {
    const Rating rating = TrainingRating(index);
    const float error = ErrorOf(rating, rank, factors);
    loss += error * error;
    for (int i = 0; i < rank; ++i) {
      const int user = rating.user * rank + i;
      const int movie = rating.movie * rank + i;
      gradients.users[user] += 2 * error * factors.movies[movie];
      gradients.movies[movie] += 2 * error * factors.users[user];
    }
  }
  return loss;
}

Score Evaluate(int64_t begin, int64_t end, int rank, const Factors& factors) {
  Score score;
  for (int64_t index = begin; index < end; ++index) {
    const float error = ErrorOf(HeldOutRating(index), rank, factors);
    score.loss += error * error;
    score.correct += std::abs(error) < 0.5f ? 1 : 0;
  }
  return score;
}
