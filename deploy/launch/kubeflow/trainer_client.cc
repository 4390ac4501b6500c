#include "deploy/launch/kubeflow/trainer_client.h"

#include <openssl/bio.h>
#include <openssl/conf.h>
#include <openssl/err.h>
#include <openssl/http.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"

namespace tributary {
namespace {

constexpr int64_t kMaxTokenBytes = 64 << 10;
constexpr size_t kMaxReplyBytes = 64 << 10;

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};
template <typename T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Free<T, kFree>>;

void FreeText(char* text) { OPENSSL_free(text); }
void FreeHeaders(STACK_OF(CONF_VALUE) * headers) {
  sk_CONF_VALUE_pop_free(headers, X509V3_conf_free);
}
using Text = Owned<char, FreeText>;
using Context = Owned<SSL_CTX, SSL_CTX_free>;
using Headers = Owned<STACK_OF(CONF_VALUE), FreeHeaders>;
using Bio = Owned<BIO, BIO_free_all>;

struct Url {
  std::string host;
  std::string port;
  std::string path;  // Begins with a slash, and includes the query.
};

absl::StatusOr<Url> Parse(const std::string& text) {
  char* host = nullptr;
  char* port = nullptr;
  char* path = nullptr;
  char* query = nullptr;
  int uses_tls = 0;
  const int parsed =
      absl::StartsWith(text, "https://") &&
      OSSL_HTTP_parse_url(text.c_str(), &uses_tls, /*puser=*/nullptr, &host,
                          &port, /*pport_num=*/nullptr, &path, &query,
                          /*pfrag=*/nullptr);
  const Text owned[] = {Text(host), Text(port), Text(path), Text(query)};
  ERR_clear_error();
  if (parsed != 1 || *host == '\0') {
    return absl::InvalidArgumentError(
        absl::StrCat("KUBEFLOW_TRAINER_SERVER_URL is '", text,
                     "', expected https://HOST[:PORT]/PATH"));
  }
  return Url{host, port,
             query == nullptr || *query == '\0'
                 ? std::string(path)
                 : absl::StrCat(path, "?", query)};
}

// Why a call of OpenSSL failed.
struct OpenSslFailure {
  std::string reason;
  // The server answered with a status 2xx other than 200, which OpenSSL does
  // not expect.
  bool is_success = false;
};

// Takes the errors from OpenSSL's queue; the first one is the cause.
OpenSslFailure TakeFailure() {
  OpenSslFailure failure;
  const char* data = nullptr;
  int flags = 0;
  while (const unsigned long code =
             ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags)) {
    const absl::string_view detail =
        data != nullptr && (flags & ERR_TXT_STRING) != 0 ? data : "";
    if (ERR_GET_LIB(code) == ERR_LIB_HTTP &&
        absl::StartsWith(detail, "code=2")) {
      failure.is_success = true;
    }
    const char* reason = ERR_reason_error_string(code);
    if (!failure.reason.empty() || reason == nullptr) continue;
    failure.reason = detail.empty() ? std::string(reason)
                                    : absl::StrCat(reason, " (", detail, ")");
  }
  if (failure.reason.empty()) failure.reason = "no reason given";
  return failure;
}

absl::StatusOr<Context> MakeContext(const TrainerServer& server) {
  Context context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::UnavailableError(TakeFailure().reason);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const int loaded =
      server.ca_file.empty()
          ? SSL_CTX_set_default_verify_paths(context.get())
          : SSL_CTX_load_verify_file(context.get(), server.ca_file.c_str());
  if (loaded != 1) {
    return absl::UnavailableError(
        absl::StrCat(server.ca_file, ": ", TakeFailure().reason));
  }
  return context;
}

struct Tls {
  SSL_CTX* context = nullptr;
  std::string host;
};

// Puts TLS over the connection. An OSSL_HTTP_bio_cb_t.
BIO* AddTls(BIO* connection, void* argument, int connects, int) {
  if (connects == 0) return connection;
  const Tls* tls = static_cast<const Tls*>(argument);
  BIO* const filter = BIO_new_ssl(tls->context, /*client=*/1);
  SSL* session = nullptr;
  if (filter == nullptr || BIO_get_ssl(filter, &session) != 1) return nullptr;
  X509_VERIFY_PARAM* const expected = SSL_get0_param(session);
  // An address is compared with the certificate's addresses, not its names.
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, tls->host.c_str()) != 1) {
    ERR_clear_error();
    SSL_set1_host(session, tls->host.c_str());
    SSL_set_tlsext_host_name(session, tls->host.c_str());
  }
  return BIO_push(filter, connection);
}

absl::StatusOr<Headers> MakeHeaders(const TrainerServer& server) {
  STACK_OF(CONF_VALUE)* headers = nullptr;
  if (!server.token_file.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string token,
                               ReadFile(server.token_file, kMaxTokenBytes));
    X509V3_add_value(
        "Authorization",
        absl::StrCat("Bearer ", absl::StripAsciiWhitespace(token)).c_str(),
        &headers);
  }
  return Headers(headers);
}

}  // namespace

absl::optional<TrainerServer> FindTrainerServer(
    const Environment& environment) {
  const auto value = [&environment](const char* suffix) {
    return environment(absl::StrCat("KUBEFLOW_TRAINER_SERVER_", suffix))
        .value_or("");
  };
  TrainerServer server{value("URL"), value("CA_CERT"), value("TOKEN")};
  if (server.url.empty()) return absl::nullopt;
  return server;
}

absl::Status PostJson(const TrainerServer& server, const std::string& json,
                      absl::Duration timeout) {
  TRIBUTARY_ASSIGN_OR_RETURN(const Url url, Parse(server.url));
  TRIBUTARY_ASSIGN_OR_RETURN(const Headers headers, MakeHeaders(server));
  TRIBUTARY_ASSIGN_OR_RETURN(const Context context, MakeContext(server));
  Tls tls{context.get(), url.host};
  const Bio body(BIO_new_mem_buf(json.data(), static_cast<int>(json.size())));
  ERR_clear_error();
  // An empty list of exceptions and no proxy: cluster addresses need none.
  const Bio reply(OSSL_HTTP_transfer(
      /*prctx=*/nullptr, url.host.c_str(), url.port.c_str(), url.path.c_str(),
      /*use_ssl=*/1, /*proxy=*/"", /*no_proxy=*/nullptr, /*bio=*/nullptr,
      /*rbio=*/nullptr, &AddTls, &tls, /*buf_size=*/0, headers.get(),
      "application/json", body.get(), /*expected_content_type=*/nullptr,
      /*expect_asn1=*/0, kMaxReplyBytes,
      static_cast<int>(absl::ToInt64Seconds(timeout)), /*keep_alive=*/0));
  const OpenSslFailure failure = TakeFailure();
  if (reply != nullptr || failure.is_success) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(url.host, ":", url.port, ": ", failure.reason));
}

}  // namespace tributary
