/* tls_client: see tls_client.h. */
#include "net/tls/tls_client.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"

struct tls_client {
	SSL_CTX *context;
	SSL *ssl;
	const char *host;
};

static int load_trust(SSL_CTX *context, const char *ca_file, struct error_text *ret_text)
{
	if (!ca_file)
		return SSL_CTX_set_default_verify_paths(context) == 1 ? 0 : -ENOMEM;
	if (SSL_CTX_load_verify_file(context, ca_file) == 1)
		return 0;
	ERR_clear_error();
	return error_fill(ret_text, ERR_INVALID,
	                  "%s cannot be read, or contains no certificate (PEM)", ca_file);
}

static bool is_trusted_itself(X509_STORE_CTX *check, X509 *certificate)
{
	const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(
		X509_STORE_CTX_get0_store(check));
	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
		const X509 *known = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
		if (known && X509_cmp(known, certificate) == 0)
			return true;
	}
	return false;
}

static bool is_wrong_name(long verified)
{
	return verified == X509_V_ERR_HOSTNAME_MISMATCH ||
	       verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

/* OpenSSL's answer stands, but for the name of a certificate that is in the file. */
static int verify(int good, X509_STORE_CTX *check)
{
	if (good || !is_wrong_name(X509_STORE_CTX_get_error(check)) ||
	    !is_trusted_itself(check, X509_STORE_CTX_get0_cert(check)))
		return good;
	X509_STORE_CTX_set_error(check, X509_V_OK);
	return 1;
}

int tls_client_trust(void *ssl_context, const char *host)
{
	SSL_CTX *context = ssl_context;
	X509_VERIFY_PARAM *rules = SSL_CTX_get0_param(context);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, verify);
	/* A certificate of the file is enough by itself: its issuer does not matter. */
	if (X509_STORE_set_flags(SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN) != 1)
		return -ENOMEM;
	if (X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1)
		return 0;
	ERR_clear_error(); /* a name, then */
	return X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1 ? 0 : -ENOMEM;
}

int tls_client_distrust(long verified, const char *host, struct error_text *ret_text)
{
	if (is_wrong_name(verified))
		return error_fill(ret_text, -EPROTO, "the server's certificate is not for %s",
		                  host);
	return error_fill(ret_text, -EPROTO, "the server's certificate is not trusted: %s",
	                  X509_verify_cert_error_string(verified));
}

static int set_rules(SSL_CTX *context, const struct tls_client_options *options,
                     struct error_text *ret_text)
{
	SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY | SSL_MODE_ENABLE_PARTIAL_WRITE |
	                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
	    tls_client_trust(context, options->host))
		return -ENOMEM;
	return load_trust(context, options->ca_file, ret_text);
}

static bool is_unready(const struct tls_client *client, int result)
{
	int why = SSL_get_error(client->ssl, result);

	return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

int tls_client_shake(struct tls_client *client, struct error_text *ret_text)
{
	errno = 0;
	int result = SSL_connect(client->ssl);
	if (result == 1)
		return 0;
	int error = errno;
	bool unready = is_unready(client, result);
	long verified = SSL_get_verify_result(client->ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	ERR_clear_error();
	if (unready)
		return error_fill(ret_text, -EAGAIN, "TLS handshake timeout");
	if (verified != X509_V_OK)
		return tls_client_distrust(verified, client->host, ret_text);
	return error_fill(ret_text, -EPROTO, "no TLS connection: %s",
	                  reason  ? reason
	                  : error ? error_name(-error)
	                          : "the peer closed the connection");
}

int tls_client_begin(const struct tls_client_options *options, struct tls_client **ret_client,
                     struct error_text *ret_text)
{
	struct tls_client *client = mem_zalloc(1, sizeof(*client));
	error_fill(ret_text, 0, "no memory for TLS");
	if (!client)
		return -ENOMEM;
	client->host = options->host;
	client->context = SSL_CTX_new(TLS_client_method());
	error_fill(ret_text, 0, "cannot set up TLS");
	int error = client->context ? set_rules(client->context, options, ret_text) : -ENOMEM;
	if (!error) {
		/* The name of a host goes to the server, so that it can choose; an address does not. */
		ASN1_OCTET_STRING *address = a2i_IPADDRESS(client->host);
		bool is_address = address != NULL;
		ASN1_OCTET_STRING_free(address);
		client->ssl = SSL_new(client->context);
		if (!client->ssl || SSL_set_fd(client->ssl, options->fd) != 1 ||
		    (!is_address && SSL_set_tlsext_host_name(client->ssl, client->host) != 1))
			error = -ENOMEM;
	}
	if (error) {
		tls_client_free(client);
		return error;
	}
	*ret_client = client;
	return 0;
}

struct tls_client *tls_client_free(struct tls_client *client)
{
	if (!client)
		return NULL;
	SSL_free(client->ssl);
	SSL_CTX_free(client->context);
	ERR_clear_error();
	return mem_free(client);
}

/* The error of a call that failed. */
static int refusal(const struct tls_client *client)
{
	int error = is_unready(client, 0) ? -EAGAIN : errno ? -errno : -EPROTO;
	ERR_clear_error();
	return error;
}

int tls_client_send(struct tls_client *client, struct span bytes, size_t *ret_len)
{
	errno = 0;
	return SSL_write_ex(client->ssl, bytes.ptr, bytes.len, ret_len) == 1 ? 0 : refusal(client);
}

int tls_client_receive(struct tls_client *client, char *out, size_t room, size_t *ret_len)
{
	size_t len = 0;
	errno = 0;
	if (SSL_read_ex(client->ssl, out, room, &len) != 1) {
		if (SSL_get_error(client->ssl, 0) != SSL_ERROR_ZERO_RETURN)
			return refusal(client);
		len = 0;
	}
	*ret_len = len;
	return 0;
}
