// The exponential function and its inverse with the same bits on every machine.
#ifndef TRIBUTARY_COMMON_NUMERICS_EXPONENTIAL_H_
#define TRIBUTARY_COMMON_NUMERICS_EXPONENTIAL_H_

namespace tributary {

// These functions use only operations that IEEE 754 rounds correctly, because
// the C library's may differ in the last bit between versions and processors.
// Their relative errors are below 1e-14.

// Returns e^x. 0 if x is below -708, and infinity if x is above 709.
double Exponential(double x);

// Returns ln(x) for normal x > 0.
double NaturalLogarithm(double x);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_EXPONENTIAL_H_
