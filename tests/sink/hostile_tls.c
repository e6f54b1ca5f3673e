/* Certificates for tests. See hostile.h. */
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "sink/hostile.h"

static void add_extension(X509 *cert, int id, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, id, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(cert, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static X509 *make_cert(EVP_PKEY *key, const char *name, bool expired)
{
	static long serial = 1;
	X509 *cert = X509_new();
	assert_non_null(cert);
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -86400);
	X509_gmtime_adj(X509_getm_notAfter(cert), expired ? -3600 : 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
	                           (const unsigned char *)name, -1, -1, 0);
	return cert;
}

static void write_cert(const char *path, X509 *cert)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, cert), 1);
	fclose(file);
}

static X509 *signed_cert(struct hostile_ca *ca, EVP_PKEY *key, const struct hostile_name *name)
{
	char names[128];
	X509 *cert = make_cert(key, name->name, name->expired);
	bool address = name->name[0] >= '0' && name->name[0] <= '9';
	snprintf(names, sizeof(names), "%s:%s", address ? "IP" : "DNS", name->name);
	add_extension(cert, NID_subject_alt_name, names);
	X509_set_issuer_name(cert, X509_get_subject_name(ca->cert));
	assert_true(X509_sign(cert, ca->key, EVP_sha256()) > 0);
	return cert;
}

void hostile_ca_open(struct hostile_ca *ca)
{
	memset(ca, 0, sizeof(*ca));
	test_dir_make(ca->dir);
	snprintf(ca->ca_file, sizeof(ca->ca_file), "%s/ca.pem", ca->dir);
	snprintf(ca->cert_file, sizeof(ca->cert_file), "%s/client.pem", ca->dir);
	snprintf(ca->key_file, sizeof(ca->key_file), "%s/client.key", ca->dir);
	ca->key = EVP_EC_gen("P-256");
	ca->cert = make_cert(ca->key, "hostile CA", false);
	add_extension(ca->cert, NID_basic_constraints, "critical,CA:TRUE");
	X509_set_issuer_name(ca->cert, X509_get_subject_name(ca->cert));
	assert_true(X509_sign(ca->cert, ca->key, EVP_sha256()) > 0);
	write_cert(ca->ca_file, ca->cert);

	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = signed_cert(ca, key, &(struct hostile_name){ .name = "client" });
	write_cert(ca->cert_file, cert);
	FILE *file = fopen(ca->key_file, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(cert);
	EVP_PKEY_free(key);
}

void hostile_ca_close(struct hostile_ca *ca)
{
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	test_dir_remove(ca->dir);
}

static int choose_http2(SSL *ssl, const unsigned char **out, unsigned char *len,
                        const unsigned char *in, unsigned int in_len, void *user)
{
	static const unsigned char wanted[] = "\x02h2\x08http/1.1";
	(void)ssl;
	(void)user;
	return SSL_select_next_proto((unsigned char **)out, len, wanted, sizeof(wanted) - 1, in,
	                             in_len) == OPENSSL_NPN_NEGOTIATED
	               ? SSL_TLSEXT_ERR_OK
	               : SSL_TLSEXT_ERR_NOACK;
}

SSL_CTX *hostile_ca_server(struct hostile_ca *ca, const struct hostile_name *name)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = signed_cert(ca, key, name);
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
	assert_non_null(tls);
	assert_int_equal(SSL_CTX_use_certificate(tls, cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(tls, key), 1);
	SSL_CTX_set_alpn_select_cb(tls, choose_http2, NULL);
	X509_free(cert);
	EVP_PKEY_free(key);
	return tls;
}
