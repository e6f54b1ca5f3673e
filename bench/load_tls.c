/*
 * load_tls: the client side of TLS 1.3, see load.h.
 *
 * The certificate chain is not verified, which a real client would do and
 * which would only make this side slower. For resumption the first ticket is
 * used again and again, as a client that opens connections in parallel does.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "load.h"

struct load_tls_context {
	SSL_CTX *ctx;
	SSL_SESSION *session;
	bool resume;
};

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
	struct load_tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	if (context->session)
		return 0;
	context->session = session;
	return 1; /* the reference is ours now */
}

struct load_tls_context *load_tls_new(bool resume)
{
	struct load_tls_context *context = mem_zalloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->ctx = SSL_CTX_new(TLS_client_method());
	if (!context->ctx)
		return mem_free(context);
	context->resume = resume;
	SSL_CTX_set_verify(context->ctx, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_read_ahead(context->ctx, 1);
	(void)SSL_CTX_set_min_proto_version(context->ctx, TLS1_3_VERSION);
	(void)SSL_CTX_set_ciphersuites(context->ctx, "TLS_AES_128_GCM_SHA256");
	SSL_CTX_set_app_data(context->ctx, context);
	if (resume) {
		SSL_CTX_set_session_cache_mode(context->ctx,
					       SSL_SESS_CACHE_CLIENT |
						       SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(context->ctx, keep_session);
	} else {
		SSL_CTX_set_session_cache_mode(context->ctx, SSL_SESS_CACHE_OFF);
	}
	return context;
}

SSL *load_tls_begin(struct load_tls_context *context, int fd)
{
	SSL *ssl = SSL_new(context->ctx);
	if (!ssl)
		return NULL;
	if (SSL_set_fd(ssl, fd) != 1 ||
	    (context->session && SSL_set_session(ssl, context->session) != 1)) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_app_data(ssl, context->session);
	SSL_set_connect_state(ssl);
	return ssl;
}

enum load_tls_step load_tls_handshake(struct load_tls_context *context, SSL *ssl, bool *ret_resumed)
{
	ERR_clear_error();
	int done = SSL_do_handshake(ssl);
	if (done != 1) {
		int why = SSL_get_error(ssl, done);
		return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? LOAD_TLS_AGAIN
										 : LOAD_TLS_FAILED;
	}
	*ret_resumed = SSL_session_reused(ssl) == 1;
	/* The server changed its ticket key: take its next ticket. */
	if (context->session && !*ret_resumed && SSL_get_app_data(ssl) == context->session) {
		SSL_SESSION_free(context->session);
		context->session = NULL;
	}
	return LOAD_TLS_READY;
}

int load_tls_send(SSL *ssl, const char *bytes, size_t size)
{
	return SSL_write(ssl, bytes, (int)size) == (int)size ? 0 : -1;
}

long load_tls_recv(SSL *ssl, char *bytes, size_t size)
{
	ERR_clear_error();
	int got = SSL_read(ssl, bytes, (int)size);
	if (got > 0)
		return got;
	switch (SSL_get_error(ssl, got)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		return -2;
	}
}

void load_tls_end(SSL *ssl)
{
	/* Without this the session would count as broken and not be resumed. */
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
}
