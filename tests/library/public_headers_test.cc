// Includes all public headers, without the precompiled header. A program that
// uses Tributary as a library must not depend on the headers of gRPC and
// Protocol Buffers: their macros would conflict with other versions of them.
#include "tributary/gradient_check.h"
#include "tributary/job.h"
#include "tributary/main.h"
#include "tributary/nn.h"
#include "tributary/registry.h"
#include "tributary/trained_model.h"
#include "tributary/worker.h"

#if defined(GOOGLE_PROTOBUF_VERSION)
#error "a public header includes a header of Protocol Buffers"
#endif
#if defined(GRPCPP_GRPCPP_H) || defined(GRPC_IMPL_CODEGEN_PORT_PLATFORM_H) || \
    defined(GRPC_SUPPORT_PORT_PLATFORM_H)
#error "a public header includes a header of gRPC"
#endif

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Compiling this file is the test.
TEST(PublicHeadersTest, IncludeNeitherGrpcNorProtobuf) {}

}  // namespace
}  // namespace tributary
