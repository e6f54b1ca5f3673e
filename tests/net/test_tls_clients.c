/* Client certificates: who is asked, who is let in, and by which names. */
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/web.h"

#define WHO "GET /who HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

struct identity {
	EVP_PKEY *key;
	X509 *cert;
};

static struct web_tls web_tls;
static struct identity ca, other_ca;
static char ca_file[300];

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(cert, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

/* Signed by `issuer`, or by itself. Times are seconds from now. */
static struct identity make(const char *cn, const char *sans, const char *usage,
                            const struct identity *issuer, long until_s)
{
	static long serial;
	struct identity made = { EVP_EC_gen("P-256"), X509_new() };
	assert_true(made.key && made.cert);
	X509_set_version(made.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(made.cert), -7200);
	X509_gmtime_adj(X509_getm_notAfter(made.cert), until_s);
	X509_set_pubkey(made.cert, made.key);
	X509_NAME *name = X509_get_subject_name(made.cert);
	if (cn)
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1,
		                           -1, 0);
	X509_set_issuer_name(made.cert, issuer ? X509_get_subject_name(issuer->cert) : name);
	if (!issuer)
		add_extension(made.cert, NID_basic_constraints, "critical,CA:TRUE");
	if (sans)
		add_extension(made.cert, NID_subject_alt_name, sans);
	if (usage)
		add_extension(made.cert, NID_ext_key_usage, usage);
	assert_true(X509_sign(made.cert, issuer ? issuer->key : made.key, EVP_sha256()) > 0);
	return made;
}

static void identity_free(struct identity *identity)
{
	EVP_PKEY_free(identity->key);
	X509_free(identity->cert);
}

static struct tls *server_tls(bool required)
{
	struct error_text text;
	struct tls *tls;
	struct tls_options options = { .cert_file = web_tls.cert,
		                       .key_file = web_tls.key,
		                       .client_ca_file = ca_file,
		                       .client_required = required };
	if (tls_new(&options, &tls, &text))
		fail_msg("%s", text.text);
	return tls;
}

static int setup(void **state)
{
	(void)state;
	web_tls_open(&web_tls, WEB_ECDSA);
	ca = make("Test CA", NULL, NULL, NULL, 3600);
	other_ca = make("Other CA", NULL, NULL, NULL, 3600);
	snprintf(ca_file, sizeof(ca_file), "%s/ca.pem", web_tls.dir);
	FILE *file = fopen(ca_file, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, ca.cert), 1);
	fclose(file);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	identity_free(&ca);
	identity_free(&other_ca);
	web_tls_close(&web_tls);
	return 0;
}

static void show(const struct identity *identity)
{
	assert_int_equal(SSL_CTX_use_certificate(web_tls.client, identity->cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(web_tls.client, identity->key), 1);
}

/* What /who says behind the address, or NULL when there was no connection. */
static const char *ask(struct web *web, SSL_SESSION *session, char *text, size_t room)
{
	struct web_peer peer;
	struct web_answer answer;
	const char *said = NULL;
	peer_open(web, &peer, web_tls.client);
	if (session)
		assert_int_equal(SSL_set_session(peer.ssl, session), 1);
	peer_say(&peer, WHO);
	peer_until_eof(&peer);
	if (peer_answer(&peer, 0, false, &answer)) {
		assert_int_equal(answer.status, 200);
		assert_true(answer.body.len < room);
		memcpy(text, answer.body.ptr, answer.body.len);
		text[answer.body.len] = '\0';
		said = strchr(text, ' ');
		assert_non_null(said);
		assert_int_equal(session != NULL, SSL_session_reused(peer.ssl));
	}
	peer_close(&peer);
	return said;
}

static void expect(bool required, const struct identity *identity, int version,
                   const char *expected)
{
	struct web web;
	char text[4096];
	struct tls *tls = server_tls(required);
	assert_int_equal(web_open(&web, NULL, tls), 0);
	SSL_CTX_set_max_proto_version(web_tls.client, version);
	if (identity)
		show(identity);
	const char *said = ask(&web, NULL, text, sizeof(text));
	if (!expected && said)
		fail_msg("was let in: %s", said);
	if (expected && (!said || strcmp(said, expected) != 0))
		fail_msg("expected \"%s\", got \"%s\"", expected, said ? said : "no answer");
	web_close(&web);
	tls_free(tls);
}

static void expect_both(bool required, const struct identity *identity, const char *expected)
{
	expect(required, identity, TLS1_2_VERSION, expected);
	expect(required, identity, TLS1_3_VERSION, expected);
}

static void a_client_without_a_certificate_is_served_unless_it_is_required(void **state)
{
	(void)state;
	expect_both(false, NULL, " tls");
	expect_both(true, NULL, NULL);
}

static void names_of_a_certificate_are_on_the_request(void **state)
{
	(void)state;
	struct identity client = make("crm \xc3\xbc",
	                              "DNS:crm.example.com,DNS:b.example.com,"
	                              "email:x@example.com,IP:192.0.2.1",
	                              "clientAuth", &ca, 3600);
	expect_both(false, &client,
	            " tls certified cn=crm \xc3\xbc dns=crm.example.com "
	            "dns=b.example.com");
	identity_free(&client);
	client = make(NULL, "DNS:only.example.com", NULL, &ca, 3600);
	expect_both(true, &client, " tls certified dns=only.example.com");
	identity_free(&client);
}

static void a_certificate_of_a_stranger_gets_no_connection(void **state)
{
	(void)state;
	struct identity stranger = make("crm", NULL, NULL, &other_ca, 3600);
	struct identity self = make("crm", NULL, NULL, NULL, 3600);
	struct identity old = make("crm", NULL, NULL, &ca, -60);
	struct identity server = make("crm", NULL, "serverAuth", &ca, 3600);
	expect_both(false, &stranger, NULL);
	expect_both(false, &self, NULL);
	expect_both(false, &old, NULL);
	expect_both(false, &server, NULL);
	identity_free(&stranger);
	identity_free(&self);
	identity_free(&old);
	identity_free(&server);
}

static void a_name_with_a_hole_is_left_out(void **state)
{
	(void)state;
	static unsigned char holed[] = "crm\0evil";
	struct identity client = make(NULL, "DNS:right.example.com", NULL, NULL, 3600);
	X509_NAME *name = X509_get_subject_name(client.cert);
	X509_NAME_add_entry_by_NID(name, NID_commonName, V_ASN1_UTF8STRING, holed, 8, -1, 0);
	X509_set_issuer_name(client.cert, X509_get_subject_name(ca.cert));
	assert_true(X509_sign(client.cert, ca.key, EVP_sha256()) > 0);
	expect_both(false, &client, " tls certified dns=right.example.com");
	identity_free(&client);
}

static void at_most_32_names_are_taken(void **state)
{
	(void)state;
	char sans[4096] = "", expected[4096] = " tls certified cn=many";
	size_t at = 0, end = strlen(expected);
	for (int i = 0; i < 50; i++) {
		at += (size_t)snprintf(sans + at, sizeof(sans) - at, "%sDNS:n%d.example.com",
		                       i ? "," : "", i);
		if (i < 31)
			end += (size_t)snprintf(expected + end, sizeof(expected) - end,
			                        " dns=n%d.example.com", i);
	}
	struct identity client = make("many", sans, NULL, &ca, 3600);
	expect(false, &client, TLS1_3_VERSION, expected);
	identity_free(&client);
}

static void a_resumed_session_keeps_its_names(void **state)
{
	(void)state;
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct identity client = make("crm", NULL, NULL, &ca, 3600);
	struct tls *tls = server_tls(true);
	struct web web;
	assert_int_equal(web_open(&web, NULL, tls), 0);
	web_tls_keep_sessions(&web_tls);
	show(&client);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		SSL_CTX_set_min_proto_version(web_tls.client, versions[i]);
		SSL_CTX_set_max_proto_version(web_tls.client, versions[i]);
		for (int round = 0; round < 3; round++) {
			char text[256];
			const char *said = ask(&web, web_tls.session, text, sizeof(text));
			assert_non_null(said);
			assert_string_equal(said, " tls certified cn=crm");
		}
		web_tls_forget_session(&web_tls);
	}
	web_close(&web);
	tls_free(tls);
	identity_free(&client);
}

/* Each allocation of ours fails once: the connection may break, nothing else. */
static void no_memory_for_names_costs_the_connection_only(void **state)
{
	(void)state;
	struct identity client = make("crm", NULL, NULL, &ca, 3600);
	unsigned served = 0, broken = 0;
	show(&client);
	for (unsigned long n = 1; n < 12; n++) {
		struct tls *tls = server_tls(true);
		struct web web;
		char text[256];
		assert_int_equal(web_open(&web, NULL, tls), 0);
		mem_fail_at(n, false);
		const char *said = ask(&web, NULL, text, sizeof(text));
		mem_fail_at(0, false);
		assert_true(!said || strcmp(said, " tls certified cn=crm") == 0);
		served += said != NULL;
		broken += said == NULL;
		web_close(&web);
		tls_free(tls);
	}
	assert_true(served > 0 && broken > 1);
	identity_free(&client);
}

static void a_ca_file_that_does_not_serve_is_named(void **state)
{
	(void)state;
	struct error_text text;
	struct tls *tls = NULL;
	struct tls_options options = { .cert_file = web_tls.cert, .key_file = web_tls.key };
	options.client_ca_file = "/nowhere/ca.pem";
	assert_int_equal(tls_new(&options, &tls, &text), -ENOENT);
	assert_non_null(strstr(text.text, "client CA /nowhere/ca.pem"));
	options.client_ca_file = web_tls.key;
	assert_int_equal(tls_new(&options, &tls, &text), ERR_CONFIG);
	assert_non_null(strstr(text.text, web_tls.key));
	assert_null(tls);
}

static void a_plain_request_knows_its_address(void **state)
{
	(void)state;
	struct web web;
	struct web_peer peer;
	struct web_answer answer;
	assert_int_equal(web_open(&web, NULL, NULL), 0);
	peer_open(&web, &peer, NULL);
	peer_say(&peer, WHO);
	peer_until_answers(&peer, 1);
	assert_true(peer_answer(&peer, 0, false, &answer));
	char expected[64];
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", (unsigned)peer_port(&peer));
	assert_true(span_eq(answer.body, span_str(expected)));
	peer_close(&peer);
	web_close(&web);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	/* A peer may write to a server that has just refused it. */
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		TEST(a_client_without_a_certificate_is_served_unless_it_is_required),
		TEST(names_of_a_certificate_are_on_the_request),
		TEST(a_certificate_of_a_stranger_gets_no_connection),
		TEST(a_name_with_a_hole_is_left_out),
		TEST(at_most_32_names_are_taken),
		TEST(a_resumed_session_keeps_its_names),
		TEST(no_memory_for_names_costs_the_connection_only),
		TEST(a_ca_file_that_does_not_serve_is_named),
		TEST(a_plain_request_knows_its_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
