/* Certificates and the rules of TLS. See tls.h. */
#include "net/tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "net/tls/tls_private.h"
#include "sys/file.h"

/* AES-128 first: as safe for what passes here, and cheaper. */
#define SUITES_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define CIPHERS_12 "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"

/* Why OpenSSL said no, in its own words; the queue is emptied. */
static const char *last_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = ERR_reason_error_string(code);
	ERR_clear_error();
	return reason ? reason : "unknown reason";
}

/* No prompt on a terminal: a daemon has nobody to ask. */
static int no_passphrase(char *out, int room, int writing, void *user)
{
	(void)out, (void)room, (void)writing, (void)user;
	return -1;
}

static int select_protocol(SSL *ssl, const unsigned char **ret_out, unsigned char *ret_len,
                           const unsigned char *offered, unsigned offered_len, void *user)
{
	static const unsigned char ours[] = "\x08http/1.1";
	(void)ssl, (void)user;
	for (unsigned i = 0; i < offered_len; i += 1u + offered[i])
		if (offered[i] == 8 && offered_len - i >= 9 && memcmp(offered + i, ours, 9) == 0) {
			*ret_out = offered + i + 1;
			*ret_len = 8;
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* OpenSSL's own words for a file that is not there are of no use to anybody, and it would
 * wait for a pipe. */
static int check_readable(const char *what, const char *path, struct error_text *ret_text)
{
	struct file_system *fs = file_system_real();
	int fd = -1;
	int error = fs->methods->open(fs, path, FILE_READ | FILE_REGULAR, &fd);
	if (error != 0)
		return error_fill(ret_text, error, "cannot read the TLS %s %s: %s", what, path,
		                  error_name(error));
	fs->methods->close(fs, fd);
	return 0;
}

static int load_files(SSL_CTX *context, const struct tls_options *options,
                      struct error_text *ret_text)
{
	int error = check_readable("certificate", options->cert_file, ret_text);
	if (!error)
		error = check_readable("key", options->key_file, ret_text);
	if (error)
		return error;
	if (SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1)
		return error_fill(ret_text, ERR_CONFIG, "cannot use the TLS certificate %s: %s",
		                  options->cert_file, last_reason());
	if (SSL_CTX_use_PrivateKey_file(context, options->key_file, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return error_fill(ret_text, ERR_CONFIG, "cannot use the TLS key %s with %s: %s",
		                  options->key_file, options->cert_file, last_reason());
	return 0;
}

/* The names of the CAs go to the client, so that it can choose. The purpose of a
 * certificate is judged by OpenSSL: one for servers alone is refused. */
static int ask_clients(SSL_CTX *context, const struct tls_options *options,
                       struct error_text *ret_text)
{
	const char *file = options->client_ca_file;
	int error = check_readable("client CA", file, ret_text);
	if (error)
		return error;
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);
	if (!names || SSL_CTX_load_verify_file(context, file) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return error_fill(ret_text, ERR_CONFIG, "cannot use the TLS client CA %s: %s", file,
		                  last_reason());
	}
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context,
	                   SSL_VERIFY_PEER |
	                           (options->client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
	                   NULL);
	return 0;
}

static bool set_rules(SSL_CTX *context)
{
	static const unsigned char name[] = "stile";
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                                     SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                     SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
	SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
	return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_num_tickets(context, 1) == 1 &&
	       SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1) == 1 &&
	       SSL_CTX_set_ciphersuites(context, SUITES_13) == 1 &&
	       SSL_CTX_set_cipher_list(context, CIPHERS_12) == 1;
}

int tls_new(const struct tls_options *options, struct tls **ret_tls, struct error_text *ret_text)
{
	struct tls *tls = mem_zalloc(1, sizeof(*tls));
	if (!tls)
		return error_fill(ret_text, -ENOMEM, "no memory for TLS");
	int error = tls_ticket_init(&tls->ticket, options->clock ? options->clock : clock_system());
	if (error) {
		tls_free(tls);
		return error_fill(ret_text, error, "cannot set up TLS: %s", error_name(error));
	}
	tls->context = SSL_CTX_new(TLS_server_method());
	tls->bio = tls_bio_new();
	if (!tls->context || !tls->bio || !set_rules(tls->context) ||
	    !tls_ticket_attach(&tls->ticket, tls->context))
		error = error_fill(ret_text, -ENOMEM, "cannot set up TLS: %s", last_reason());
	if (!error)
		error = load_files(tls->context, options, ret_text);
	if (!error && options->client_ca_file)
		error = ask_clients(tls->context, options, ret_text);
	if (error) {
		tls_free(tls);
		return error;
	}
	*ret_tls = tls;
	return 0;
}

struct tls *tls_free(struct tls *tls)
{
	if (!tls)
		return NULL;
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->bio);
	tls_ticket_destroy(&tls->ticket);
	return mem_free(tls);
}
