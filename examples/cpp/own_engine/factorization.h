// Matrix factorization: stars(user, movie) = 3 + <user's factors, movie's
// factors>. The loss of a rating is the squared error.
#ifndef EXAMPLES_CPP_OWN_ENGINE_FACTORIZATION_H_
#define EXAMPLES_CPP_OWN_ENGINE_FACTORIZATION_H_

#include <cstdint>

#include "absl/types/span.h"

// [kUsers, rank] and [kMovies, rank], row by row.
struct Factors {
  absl::Span<const float> users;
  absl::Span<const float> movies;
};
struct Gradients {
  absl::Span<float> users;
  absl::Span<float> movies;
};

struct Score {
  double loss = 0;
  int64_t correct = 0;  // Predictions within half a star.
};

// Computes the sums over the training ratings with these indexes: returns the
// loss, and writes its gradients.
double ComputeGradients(absl::Span<const int64_t> indexes, int rank,
                        const Factors& factors, const Gradients& gradients);

// Returns the sums over the held-out ratings [begin, end).
Score Evaluate(int64_t begin, int64_t end, int rank, const Factors& factors);

#endif  // EXAMPLES_CPP_OWN_ENGINE_FACTORIZATION_H_
