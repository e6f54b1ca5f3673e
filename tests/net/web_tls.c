/* Certificates for tests. See web.h. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#include "net/web.h"

static X509 *self_signed(EVP_PKEY *key)
{
	X509 *cert = X509_new();
	assert_non_null(cert);
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_NAME *name = X509_get_subject_name(cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1,
	                           -1, 0);
	X509_set_issuer_name(cert, name);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	return cert;
}

static void write_files(struct web_tls *web_tls, EVP_PKEY *key, X509 *cert)
{
	FILE *file = fopen(web_tls->cert, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, cert), 1);
	fclose(file);
	file = fopen(web_tls->key, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
}

void web_tls_open(struct web_tls *web_tls, enum web_key kind)
{
	struct error_text text;
	memset(web_tls, 0, sizeof(*web_tls));
	test_dir_make(web_tls->dir);
	snprintf(web_tls->cert, sizeof(web_tls->cert), "%s/cert.pem", web_tls->dir);
	snprintf(web_tls->key, sizeof(web_tls->key), "%s/key.pem", web_tls->dir);
	EVP_PKEY *key = kind == WEB_RSA ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
	assert_non_null(key);
	X509 *cert = self_signed(key);
	write_files(web_tls, key, cert);
	clock_fake_init(&web_tls->clock);
	struct tls_options options = { .cert_file = web_tls->cert,
		                       .key_file = web_tls->key,
		                       .clock = &web_tls->clock.clock };
	if (tls_new(&options, &web_tls->tls, &text))
		fail_msg("%s", text.text);
	web_tls->client = SSL_CTX_new(TLS_client_method());
	assert_non_null(web_tls->client);
	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(web_tls->client), cert), 1);
	SSL_CTX_set_verify(web_tls->client, SSL_VERIFY_PEER, NULL);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
	struct web_tls *web_tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	SSL_SESSION_free(web_tls->session);
	web_tls->session = session;
	return 1;
}

void web_tls_keep_sessions(struct web_tls *web_tls)
{
	SSL_CTX_set_app_data(web_tls->client, web_tls);
	SSL_CTX_set_session_cache_mode(web_tls->client,
	                               SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(web_tls->client, keep_session);
}

void web_tls_forget_session(struct web_tls *web_tls)
{
	SSL_SESSION_free(web_tls->session);
	web_tls->session = NULL;
}

void web_tls_close(struct web_tls *web_tls)
{
	web_tls_forget_session(web_tls);
	SSL_CTX_free(web_tls->client);
	tls_free(web_tls->tls);
	test_dir_remove(web_tls->dir);
}
