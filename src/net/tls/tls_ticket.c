/* tls_ticket: see tls_ticket.h. */
#include "net/tls/tls_ticket.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"

static void wipe(struct tls_ticket_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}

static int make_key(struct tls_ticket_key *ret_key, uint64_t now_ms)
{
	struct tls_ticket_key key = { .made_ms = now_ms, .there = true };

	int r = hash_random(&key, offsetof(struct tls_ticket_key, made_ms));
	if (r < 0)
		return r;
	*ret_key = key;
	wipe(&key);
	return 0;
}

int tls_ticket_init(struct tls_ticket *ticket, const struct clock *clock)
{
	*ticket = (struct tls_ticket){ .clock = clock };
	pthread_mutex_init(&ticket->mutex, NULL);
	ticket->ready = true;
	/* Fetched once: looking an algorithm up by its name takes locks. */
	ticket->cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
	if (!ticket->cipher)
		return -ENOMEM;
	return make_key(&ticket->current, clock_read(clock).boot_ms);
}

void tls_ticket_destroy(struct tls_ticket *ticket)
{
	if (!ticket->ready)
		return;
	wipe(&ticket->current);
	wipe(&ticket->previous);
	EVP_CIPHER_free(ticket->cipher);
	pthread_mutex_destroy(&ticket->mutex);
	*ticket = (struct tls_ticket){ 0 };
}

/* Replaces keys that are too old, also after days without a handshake. With the mutex. */
static int rotate(struct tls_ticket *ticket)
{
	uint64_t now_ms = clock_read(ticket->clock).boot_ms;
	uint64_t age_ms = now_ms - ticket->current.made_ms;

	if (age_ms < TLS_TICKET_ROTATE_MS)
		return 0;
	struct tls_ticket_key fresh;
	int r = make_key(&fresh, now_ms);
	if (r < 0)
		return r;
	wipe(&ticket->previous);
	if (age_ms < 2 * TLS_TICKET_ROTATE_MS)
		ticket->previous = ticket->current;
	ticket->current = fresh;
	wipe(&fresh);
	return 0;
}

int tls_ticket_seal_key(struct tls_ticket *ticket, struct tls_ticket_key *ret_key)
{
	pthread_mutex_lock(&ticket->mutex);
	int r = rotate(ticket);
	if (r == 0)
		*ret_key = ticket->current;
	pthread_mutex_unlock(&ticket->mutex);
	return r;
}

static bool has_name(const struct tls_ticket_key *key, const unsigned char *name)
{
	return key->there && memcmp(key->name, name, TLS_TICKET_NAME_LEN) == 0;
}

int tls_ticket_open_key(struct tls_ticket *ticket,
                        const unsigned char name[static TLS_TICKET_NAME_LEN],
                        struct tls_ticket_key *ret_key)
{
	pthread_mutex_lock(&ticket->mutex);
	int r = rotate(ticket);
	if (r == 0 && has_name(&ticket->current, name)) {
		*ret_key = ticket->current;
	} else if (r == 0 && has_name(&ticket->previous, name)) {
		*ret_key = ticket->previous;
		r = 1;
	} else if (r == 0) {
		r = -ENOENT;
	}
	pthread_mutex_unlock(&ticket->mutex);
	return r;
}

static bool set_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *key)
{
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* OpenSSL's answers: below 0 ends the handshake, 0 is no ticket. */
static int seal(struct tls_ticket *ticket, unsigned char *ret_name, unsigned char *ret_iv,
                EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
	struct tls_ticket_key key;
	bool good = false;

	if (tls_ticket_seal_key(ticket, &key) < 0)
		return 0;
	memcpy(ret_name, key.name, sizeof(key.name));
	if (RAND_bytes(ret_iv, EVP_CIPHER_get_iv_length(ticket->cipher)) == 1)
		good = EVP_EncryptInit_ex2(cipher, ticket->cipher, key.cipher, ret_iv, NULL) == 1 &&
		       set_mac(mac, &key);
	wipe(&key);
	return good ? 1 : -1;
}

static int unseal(struct tls_ticket *ticket, const unsigned char *name, const unsigned char *iv,
                  EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, bool renew)
{
	struct tls_ticket_key key;

	int found = tls_ticket_open_key(ticket, name, &key);
	if (found < 0)
		return 0;
	bool good = set_mac(mac, &key) &&
	            EVP_DecryptInit_ex2(cipher, ticket->cipher, key.cipher, iv, NULL) == 1;
	wipe(&key);
	if (!good)
		return -1;
	return found == 1 || renew ? 2 : 1;
}

static int callback(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                    EVP_MAC_CTX *mac, int sealing)
{
	struct tls_ticket *ticket = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

	if (sealing)
		return seal(ticket, name, iv, cipher, mac);
	/* With TLS 1.3 a client should use each ticket once: it gets the next. */
	return unseal(ticket, name, iv, cipher, mac, SSL_version(ssl) == TLS1_3_VERSION);
}

bool tls_ticket_attach(struct tls_ticket *ticket, SSL_CTX *context)
{
	return SSL_CTX_set_app_data(context, ticket) == 1 &&
	       SSL_CTX_set_tlsext_ticket_key_evp_cb(context, callback) == 1;
}
