// Ratings of movies, generated from tastes that the model has to find again.
#ifndef EXAMPLES_CPP_OWN_ENGINE_RATINGS_H_
#define EXAMPLES_CPP_OWN_ENGINE_RATINGS_H_

#include <cstdint>

inline constexpr int kUsers = 200;
inline constexpr int kMovies = 150;

struct Rating {
  int user = 0;
  int movie = 0;
  float stars = 0;
};

// Returns training rating number `index`, or held-out rating number `index`.
// Every worker gets the same ratings, because they depend on the index only. A
// real program would look them up in a file.
Rating TrainingRating(int64_t index);
Rating HeldOutRating(int64_t index);

#endif  // EXAMPLES_CPP_OWN_ENGINE_RATINGS_H_
