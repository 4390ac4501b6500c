#include "common/transport/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <utility>
#include <vector>

#include "common/transport/token_file.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace tributary {
namespace {

namespace experimental = grpc::experimental;

std::shared_ptr<experimental::CertificateProviderInterface> ProvideCertificates(
    const Security& security) {
  if (security.tls_directory.empty()) {
    const TlsTexts& texts = security.tls_texts;
    return std::make_shared<experimental::StaticDataCertificateProvider>(
        texts.ca, std::vector<experimental::IdentityKeyCertPair>{
                      {texts.key, texts.certificate}});
  }
  return std::make_shared<experimental::FileWatcherCertificateProvider>(
      security.KeyPath(), security.CertificatePath(), security.CaPath(),
      static_cast<unsigned>(absl::ToInt64Seconds(kReloadInterval)));
}

grpc::string_ref RefOf(const grpc_slice& slice) {
  return grpc::string_ref(
      reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
      GRPC_SLICE_LENGTH(slice));
}

// Plaintext credentials with an auth metadata processor. gRPC's plaintext class
// does not accept one, but the credentials beneath it do.
class PlaintextServerCredentials final : public grpc::ServerCredentials {
 public:
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override {
    processor_ = processor;
  }

 private:
  using Processor = std::shared_ptr<grpc::AuthMetadataProcessor>;

  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    grpc_server_credentials* const plaintext =
        grpc_insecure_server_credentials_create();
    grpc_server_credentials_set_auth_metadata_processor(
        plaintext, {&Process, &Destroy, new Processor(processor_)});
    const int port =
        grpc_server_add_http2_port(server, address.c_str(), plaintext);
    grpc_server_credentials_release(plaintext);
    return port;
  }

  static void Process(void* state, grpc_auth_context*, const grpc_metadata* md,
                      size_t count, grpc_process_auth_metadata_done_cb done,
                      void* user_data) {
    grpc::AuthMetadataProcessor::InputMetadata metadata;
    for (size_t i = 0; i < count; ++i) {
      metadata.emplace(RefOf(md[i].key), RefOf(md[i].value));
    }
    grpc::AuthMetadataProcessor::OutputMetadata consumed;
    grpc::AuthMetadataProcessor::OutputMetadata response;
    const grpc::Status status =
        (*static_cast<Processor*>(state))
            ->Process(metadata, /*context=*/nullptr, &consumed, &response);
    std::vector<grpc_metadata> hidden;
    for (size_t i = 0; i < count; ++i) {
      if (consumed.count(std::string(RefOf(md[i].key).data(),
                                     RefOf(md[i].key).size())) > 0) {
        hidden.push_back(md[i]);
      }
    }
    done(user_data, hidden.data(), hidden.size(), /*response_md=*/nullptr,
         /*num_response_md=*/0,
         static_cast<grpc_status_code>(status.error_code()),
         status.error_message().c_str());
  }

  static void Destroy(void* state) { delete static_cast<Processor*>(state); }

  Processor processor_;
};

class TokenInterceptor final : public experimental::Interceptor {
 public:
  explicit TokenInterceptor(const std::string& value) : value_(value) {}

  void Intercept(experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kAuthorizationHeader, value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenInterceptorFactory final
    : public experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(const Security& security)
      : security_(security) {}

  experimental::Interceptor* CreateClientInterceptor(
      experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(AuthorizationValue(security_.Tokens().front()));
  }

 private:
  const Security security_;
};

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const Security& security) {
  if (!security.tls()) return grpc::InsecureChannelCredentials();
  experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProvideCertificates(security));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // The verifier compares with the name that ChannelArguments set: the peer's
  // role.
  options.set_certificate_verifier(
      std::make_shared<experimental::HostNameCertificateVerifier>());
  options.set_check_call_host(false);
  return experimental::TlsCredentials(options);
}

std::vector<std::unique_ptr<experimental::ClientInterceptorFactoryInterface>>
MakeTokenInterceptors(const Security& security) {
  std::vector<std::unique_ptr<experimental::ClientInterceptorFactoryInterface>>
      interceptors;
  if (!security.Tokens().empty()) {
    interceptors.push_back(std::make_unique<TokenInterceptorFactory>(security));
  }
  return interceptors;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const Security& security, std::shared_ptr<const Authorizer> authorizer) {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (security.tls()) {
    experimental::TlsServerCredentialsOptions options(
        ProvideCertificates(security));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    // The authorizer checks the names in the certificate.
    options.set_certificate_verifier(
        std::make_shared<experimental::NoOpCertificateVerifier>());
    credentials = experimental::TlsServerCredentials(options);
  } else {
    credentials = std::make_shared<PlaintextServerCredentials>();
  }
  credentials->SetAuthMetadataProcessor(MakeCallGuard(std::move(authorizer)));
  return credentials;
}

}  // namespace tributary
