/*
 * tls: see tls.h and tls_session.h. Connections in memory, the names of certificates, then
 * certificates and rules.
 */
#include "net/tls/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "net/tls/tls_session.h"
#include "net/tls/tls_ticket.h"
#include "sys/file.h"

/* AES-128 first: as safe for what passes here, and cheaper. */
#define SUITES_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define CIPHERS_12 "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"
#define NAME_LEN_MAX 255

struct tls {
	SSL_CTX *context;
	struct tls_ticket ticket;
	BIO_METHOD *bio;
};

/* ---- one connection ---- */

struct tls_session {
	SSL *ssl;
	struct pool *pool;
	struct span input;
	struct outgoing output;
	bool no_memory;
	bool failed; /* for good: no goodbye either */
};

static int bio_read(BIO *bio, char *out, size_t room, size_t *ret_len)
{
	struct tls_session *session = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (session->input.len == 0) {
		BIO_set_retry_read(bio);
		return 0;
	}
	size_t n = session->input.len < room ? session->input.len : room;
	memcpy(out, session->input.ptr, n);
	session->input = span_skip(session->input, n);
	*ret_len = n;
	return 1;
}

static int bio_write(BIO *bio, const char *ptr, size_t len, size_t *ret_len)
{
	struct tls_session *session = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (outgoing_append(session->pool, &session->output, ptr, len)) {
		session->no_memory = true;
		return 0;
	}
	*ret_len = len;
	return 1;
}

static long bio_control(BIO *bio, int command, long number, void *ptr)
{
	(void)bio, (void)number, (void)ptr;
	return command == BIO_CTRL_FLUSH;
}

/* A BIO over the memory of a session. */
static BIO_METHOD *new_bio(void)
{
	int index = BIO_get_new_index();
	BIO_METHOD *method = index < 0 ? NULL : BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "stile");
	if (method && (BIO_meth_set_read_ex(method, bio_read) != 1 ||
	               BIO_meth_set_write_ex(method, bio_write) != 1 ||
	               BIO_meth_set_ctrl(method, bio_control) != 1)) {
		BIO_meth_free(method);
		return NULL;
	}
	return method;
}

/* A new SSL each time: SSL_new() and SSL_free() took 1.2 µs when measured, of
 * about 250 for a handshake; keeping one with SSL_clear() is not worth its traps. */
int tls_session_new(struct tls *tls, struct pool *pool, struct tls_session **ret_session)
{
	struct tls_session *session = mem_zalloc(1, sizeof(*session));
	if (!session)
		return -ENOMEM;
	session->pool = pool;
	session->ssl = SSL_new(tls->context);
	BIO *bio = session->ssl ? BIO_new(tls->bio) : NULL;
	if (!bio) {
		tls_session_free(session);
		return -ENOMEM;
	}
	BIO_set_data(bio, session);
	BIO_set_init(bio, 1);
	SSL_set_bio(session->ssl, bio, bio);
	SSL_set_accept_state(session->ssl);
	*ret_session = session;
	return 0;
}

struct tls_session *tls_session_free(struct tls_session *session)
{
	if (!session)
		return NULL;
	SSL_free(session->ssl);
	outgoing_clear(session->pool, &session->output);
	return mem_free(session);
}

void tls_session_feed(struct tls_session *session, struct span ciphertext)
{
	CHECK(session->input.len == 0);
	session->input = ciphertext;
}

static int error_of(struct tls_session *session, int result)
{
	switch (SSL_get_error(session->ssl, result)) {
	case SSL_ERROR_WANT_READ: return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: return 0;
	default:
		session->input = SPAN_EMPTY;
		session->failed = true;
		return session->no_memory ? -ENOMEM : -EPROTO;
	}
}

int tls_session_read(struct tls_session *session, char *out, size_t room)
{
	ERR_clear_error();
	int n = SSL_read(session->ssl, out, room < INT_MAX ? (int)room : INT_MAX);
	return n > 0 ? n : error_of(session, n);
}

int tls_session_write(struct tls_session *session, const char *ptr, size_t len)
{
	size_t written;
	ERR_clear_error();
	int n = SSL_write_ex(session->ssl, ptr, len, &written);
	if (n == 1)
		return 0;
	int error = error_of(session, n);
	return error == 0 || error == -EAGAIN ? -EPROTO : error;
}

void tls_session_end(struct tls_session *session)
{
	ERR_clear_error();
	if (!session->failed && SSL_is_init_finished(session->ssl))
		SSL_shutdown(session->ssl);
}

struct outgoing *tls_session_output(struct tls_session *session)
{
	return &session->output;
}

enum tls_progress tls_session_progress(const struct tls_session *session)
{
	if (!SSL_is_init_finished(session->ssl))
		return TLS_HANDSHAKE;
	return SSL_session_reused(session->ssl) ? TLS_RESUMED : TLS_FULL;
}

bool tls_session_is_certified(const struct tls_session *session)
{
	const X509 *certificate = SSL_get0_peer_certificate(session->ssl);
	return certificate && SSL_get_verify_result(session->ssl) == X509_V_OK &&
	       X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

/* ---- the names of a client certificate ---- */

/* Names are gathered twice: to measure them, and to copy them. */
struct gathering {
	struct tls_names *names; /* NULL: the first time */
	char *bytes;             /* behind the list */
	size_t count, len;
};

static void add_name(struct gathering *gathering, struct span text, bool dns)
{
	if (text.len == 0 || text.len > NAME_LEN_MAX || memchr(text.ptr, '\0', text.len) ||
	    gathering->count == TLS_NAMES_MAX)
		return;
	if (gathering->names) {
		char *copy = gathering->bytes + gathering->len;
		memcpy(copy, text.ptr, text.len);
		gathering->names->names[gathering->count] =
			(struct peer_name){ .text = span_of(copy, text.len), .dns = dns };
	}
	gathering->count++;
	gathering->len += text.len;
}

/* The last CN is the most specific one. */
static void add_subject(struct gathering *gathering, const X509 *certificate)
{
	const X509_NAME *subject = X509_get_subject_name(certificate);
	int found = -1, last = -1;
	while ((found = X509_NAME_get_index_by_NID(subject, NID_commonName, found)) >= 0)
		last = found;
	if (last < 0)
		return;
	unsigned char *text = NULL;
	const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, last);
	int len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
	if (len > 0)
		add_name(gathering, span_of(text, (size_t)len), false);
	OPENSSL_free(text);
}

static void add_dns_names(struct gathering *gathering, const X509 *certificate)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		if (name->type != GEN_DNS)
			continue;
		const ASN1_STRING *text = name->d.dNSName;
		add_name(gathering,
		         span_of(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)),
		         true);
	}
	GENERAL_NAMES_free(all);
}

int tls_session_names(const struct tls_session *session, struct tls_names **ret_names)
{
	const X509 *certificate = SSL_get0_peer_certificate(session->ssl);
	CHECK(certificate);
	struct gathering first = { 0 };
	add_subject(&first, certificate);
	add_dns_names(&first, certificate);
	size_t list = sizeof(struct tls_names) + first.count * sizeof(struct peer_name);
	struct tls_names *names = mem_alloc(list + first.len);
	if (!names)
		return -ENOMEM;
	struct gathering second = { .names = names, .bytes = (char *)names + list };
	add_subject(&second, certificate);
	add_dns_names(&second, certificate);
	/* OpenSSL may find no memory the second time. */
	CHECK(second.count <= first.count && second.len <= first.len);
	names->count = (uint32_t)second.count;
	*ret_names = names;
	return 0;
}

/* ---- certificates and rules ---- */

/* The reason of OpenSSL's last error; empties its queue. */
static const char *last_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = ERR_reason_error_string(code);
	ERR_clear_error();
	return reason ? reason : "unknown reason";
}

/* No prompt on a terminal: a daemon has no user to ask. */
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

/* OpenSSL's message for a missing file says too little, and it would block on a pipe. */
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
	tls->bio = new_bio();
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
