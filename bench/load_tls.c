/*
 * load_tls: the client side of TLS 1.3, just enough to be cheap (see load.h).
 *
 * A client of OpenSSL 3.0 spends one and a half times what the server spends
 * on a handshake (it decodes and verifies the certificate) and would be the
 * limit of every run. This one does what the server must see and nothing else:
 *
 *   - one X25519 key for the whole run, so one scalar multiplication each time;
 *   - the certificate, its signature and the server's Finished are read into
 *     the transcript but not verified (never do this outside a benchmark);
 *   - Finished and the request leave in one write;
 *   - for resumption the first ticket is used again and again, as a client
 *     that opens connections in parallel does.
 *
 * The server does all that it does for any client: a fresh key, a signature,
 * tickets, and with resumption psk_dhe_ke.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "load.h"
#include "load_tls_keys.h"

#define IN_BYTES 16384
#define TICKET_MAX 1024
#define HELLO_MAX (512 + TICKET_MAX)

enum record_type { RECORD_CHANGE_CIPHER = 20, RECORD_ALERT, RECORD_HANDSHAKE, RECORD_DATA };
enum message_type { MESSAGE_SERVER_HELLO = 2, MESSAGE_NEW_TICKET = 4, MESSAGE_FINISHED = 20 };
enum tls_state { TLS_HELLO, TLS_FLIGHT, TLS_FINISHED, TLS_OPEN, TLS_CLOSED };

struct ticket {
	bool usable;
	uint8_t bytes[TICKET_MAX];
	size_t size;
	uint32_t age_add;
	uint64_t since_ms;
	uint8_t early[TLS_HASH_BYTES];   /* secret */
	uint8_t derived[TLS_HASH_BYTES]; /* salt of the handshake secret */
	uint8_t binder[TLS_HASH_BYTES];  /* key of the binder */
};

struct load_tls_context {
	struct tls_suite suite;
	bool resume;
	uint8_t secret[32];
	uint8_t share[32];
	uint8_t derived[TLS_HASH_BYTES]; /* as in struct ticket, without a ticket */
	struct ticket ticket;
	struct load_tls *spare;
};

struct load_tls {
	struct load_tls_context *context;
	struct load_tls *next; /* in the list of spare ones */
	int fd;
	enum tls_state state;
	bool offered; /* the ticket */
	bool resumed;
	EVP_MD_CTX *transcript;
	struct tls_traffic in;
	struct tls_traffic out;
	uint8_t handshake[TLS_HASH_BYTES];
	uint8_t client[TLS_HASH_BYTES]; /* traffic secrets of the handshake */
	uint8_t server[TLS_HASH_BYTES];
	uint8_t master[TLS_HASH_BYTES];
	uint8_t client_data[TLS_HASH_BYTES];
	uint8_t resumption[TLS_HASH_BYTES];
	uint8_t bytes[IN_BYTES]; /* as they came */
	size_t have;
	uint8_t messages[IN_BYTES]; /* handshake messages, across records */
	size_t message_bytes;
};

static uint64_t now_ms(void)
{
	return load_now_ns() / 1000000;
}

static uint8_t *put16(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t value)
{
	return put16(put16(at, value >> 16), value & 0xffff);
}

static size_t get16(const uint8_t *at)
{
	return (size_t)at[0] << 8 | at[1];
}

static size_t get24(const uint8_t *at)
{
	return (size_t)at[0] << 16 | get16(at + 1);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)(get16(at) << 16 | get16(at + 2));
}

struct load_tls_context *load_tls_new(bool resume)
{
	static const uint8_t zeros[TLS_HASH_BYTES];
	struct load_tls_context *context = mem_zalloc(1, sizeof(*context));
	if (!context || sodium_init() < 0)
		return mem_free(context);
	uint8_t early[TLS_HASH_BYTES];
	tls_suite_init(&context->suite);
	context->resume = resume;
	randombytes_buf(context->secret, sizeof(context->secret));
	(void)crypto_scalarmult_base(context->share, context->secret);
	tls_hmac(&context->suite, zeros, zeros, sizeof(zeros), early);
	tls_derive(&context->suite, early, "derived", context->suite.empty, context->derived);
	return context;
}

static struct load_tls *take_conn(struct load_tls_context *context)
{
	struct load_tls *tls = context->spare;
	if (tls) {
		context->spare = tls->next;
		return tls;
	}
	tls = mem_zalloc(1, sizeof(*tls));
	if (!tls)
		return NULL;
	tls->context = context;
	tls->transcript = EVP_MD_CTX_new();
	CHECK(tls->transcript);
	tls_traffic_init(&tls->in, &context->suite, false);
	tls_traffic_init(&tls->out, &context->suite, true);
	return tls;
}

/* All extensions but the one of the ticket, which must be the last. */
static uint8_t *put_extensions(const struct load_tls_context *context, uint8_t *at)
{
	static const uint8_t fixed[] = {
		0, 43, 0, 3,  2, 3,  4,     /* supported_versions: 1.3 */
		0, 10, 0, 4,  0, 2,  0, 29, /* supported_groups: x25519 */
		0, 13, 0, 4,  0, 2,  4, 3,  /* signatures: ecdsa_secp256r1_sha256 */
		0, 45, 0, 2,  1, 1,         /* psk_key_exchange_modes: psk_dhe_ke */
		0, 16, 0, 11, 0, 9,  8, 'h', 't', 't', 'p', '/', '1', '.', '1', /* ALPN */
		0, 51, 0, 38, 0, 36, 0, 29,  0,   32, /* key_share: x25519 */
	};
	memcpy(at, fixed, sizeof(fixed));
	memcpy(at + sizeof(fixed), context->share, sizeof(context->share));
	return at + sizeof(fixed) + sizeof(context->share);
}

static uint8_t *put_ticket(const struct ticket *ticket, uint8_t *at)
{
	at = put16(at, 41);
	at = put16(at, 2 + 2 + ticket->size + 4 + 2 + 1 + TLS_HASH_BYTES);
	at = put16(at, 2 + ticket->size + 4);
	at = put16(at, ticket->size);
	memcpy(at, ticket->bytes, ticket->size);
	at += ticket->size;
	at = put32(at, (uint32_t)(now_ms() - ticket->since_ms) + ticket->age_add);
	at = put16(at, 1 + TLS_HASH_BYTES);
	*at++ = TLS_HASH_BYTES;
	return at + TLS_HASH_BYTES; /* the binder comes when the rest is known */
}

static size_t make_hello(struct load_tls *tls, uint8_t *record)
{
	static const uint8_t suites[] = {
		0, 0, 2, 0x13, 0x01, 1, 0
	}; /* no session id, AES-128-GCM */
	struct load_tls_context *context = tls->context;
	uint8_t *message = record + TLS_RECORD_HEAD;
	uint8_t *at = put16(message + 4, 0x0303);
	randombytes_buf(at, 32);
	at += 32;
	memcpy(at, suites, sizeof(suites));
	at += sizeof(suites);
	uint8_t *extensions = at;
	at = put_extensions(context, at + 2);
	if (tls->offered)
		at = put_ticket(&context->ticket, at);
	(void)put16(extensions, (size_t)(at - extensions) - 2);
	size_t size = (size_t)(at - message);
	message[0] = 1;
	message[1] = 0;
	(void)put16(message + 2, size - 4);
	record[0] = RECORD_HANDSHAKE;
	(void)put16(record + 1, 0x0301);
	(void)put16(record + 3, size);
	if (tls->offered) {
		uint8_t hash[TLS_HASH_BYTES];
		tls_hash(&context->suite, message, size - TLS_HASH_BYTES - 3, hash);
		tls_hmac(&context->suite, context->ticket.binder, hash, sizeof(hash),
		         at - TLS_HASH_BYTES);
	}
	return TLS_RECORD_HEAD + size;
}

static void note_message(struct load_tls *tls, const uint8_t *message, size_t size)
{
	CHECK(EVP_DigestUpdate(tls->transcript, message, size) == 1);
}

struct load_tls *load_tls_begin(struct load_tls_context *context, int fd)
{
	uint8_t record[HELLO_MAX];
	struct load_tls *tls = take_conn(context);
	if (!tls)
		return NULL;
	tls->fd = fd;
	tls->state = TLS_HELLO;
	tls->have = tls->message_bytes = 0;
	tls->offered = context->ticket.usable;
	tls->resumed = false;
	size_t size = make_hello(tls, record);
	CHECK(EVP_DigestInit_ex2(tls->transcript, context->suite.sha256, NULL) == 1);
	note_message(tls, record + TLS_RECORD_HEAD, size - TLS_RECORD_HEAD);
	if (send(fd, record, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size) {
		load_tls_end(tls);
		return NULL;
	}
	return tls;
}

static void transcript_now(struct load_tls *tls, uint8_t *hash)
{
	EVP_MD_CTX *copy = tls->context->suite.hash;
	CHECK(EVP_MD_CTX_copy_ex(copy, tls->transcript) == 1);
	CHECK(EVP_DigestFinal_ex(copy, hash, NULL) == 1);
}

/* The server's share, and whether it took the ticket. */
static int read_hello(struct load_tls *tls, const uint8_t *message, size_t size,
                      const uint8_t **ret_share)
{
	const uint8_t *end = message + size;
	const uint8_t *at = message + 4 + 2 + 32;
	*ret_share = NULL;
	if (size < 44 || message[38] != 0)
		return -1;
	at += 1 + 2 + 1 + 2; /* session id, suite, compression, size of extensions */
	while (at + 4 <= end) {
		size_t length = get16(at + 2);
		if (at + 4 + length > end)
			return -1;
		if (get16(at) == 51 && length == 36)
			*ret_share = at + 8;
		if (get16(at) == 41)
			tls->resumed = true;
		at += 4 + length;
	}
	return *ret_share ? 0 : -1;
}

static int take_hello(struct load_tls *tls, const uint8_t *message, size_t size)
{
	struct load_tls_context *context = tls->context;
	struct tls_suite *suite = &context->suite;
	const uint8_t *share = NULL;
	uint8_t agreed[32];
	uint8_t hash[TLS_HASH_BYTES];
	if (read_hello(tls, message, size, &share) != 0 ||
	    crypto_scalarmult(agreed, context->secret, share) != 0)
		return -1;
	transcript_now(tls, hash);
	tls_hmac(suite, tls->resumed ? context->ticket.derived : context->derived, agreed,
	         sizeof(agreed), tls->handshake);
	tls_derive(suite, tls->handshake, "c hs traffic", hash, tls->client);
	tls_derive(suite, tls->handshake, "s hs traffic", hash, tls->server);
	tls_traffic_key(&tls->in, suite, tls->server);
	tls_traffic_key(&tls->out, suite, tls->client);
	tls->state = TLS_FLIGHT;
	return 0;
}

/* The server is done: its data keys now, ours after our Finished. */
static void take_finished(struct load_tls *tls)
{
	static const uint8_t zeros[TLS_HASH_BYTES];
	struct tls_suite *suite = &tls->context->suite;
	uint8_t salt[TLS_HASH_BYTES];
	uint8_t hash[TLS_HASH_BYTES];
	uint8_t secret[TLS_HASH_BYTES];
	transcript_now(tls, hash);
	tls_derive(suite, tls->handshake, "derived", suite->empty, salt);
	tls_hmac(suite, salt, zeros, sizeof(zeros), tls->master);
	tls_derive(suite, tls->master, "c ap traffic", hash, tls->client_data);
	tls_derive(suite, tls->master, "s ap traffic", hash, secret);
	tls_traffic_key(&tls->in, suite, secret);
	tls->state = TLS_FINISHED;
}

static void prepare_ticket(struct load_tls_context *context, const uint8_t *psk)
{
	static const uint8_t zeros[TLS_HASH_BYTES];
	struct tls_suite *suite = &context->suite;
	struct ticket *ticket = &context->ticket;
	uint8_t binder[TLS_HASH_BYTES];
	tls_hmac(suite, zeros, psk, TLS_HASH_BYTES, ticket->early);
	tls_derive(suite, ticket->early, "derived", suite->empty, ticket->derived);
	tls_derive(suite, ticket->early, "res binder", suite->empty, binder);
	tls_expand(suite, binder, "finished", NULL, 0, ticket->binder, TLS_HASH_BYTES);
	ticket->since_ms = now_ms();
	ticket->usable = true;
}

static int take_ticket(struct load_tls *tls, const uint8_t *message, size_t size)
{
	struct load_tls_context *context = tls->context;
	uint8_t psk[TLS_HASH_BYTES];
	if (!context->resume || context->ticket.usable)
		return 0;
	size_t nonce = size > 13 ? message[12] : SIZE_MAX;
	if (nonce > 64 || 13 + nonce + 2 > size)
		return -1;
	const uint8_t *at = message + 13 + nonce;
	size_t length = get16(at);
	if (length > TICKET_MAX || 13 + nonce + 2 + length > size)
		return -1;
	memcpy(context->ticket.bytes, at + 2, length);
	context->ticket.size = length;
	context->ticket.age_add = get32(message + 8);
	tls_expand(&context->suite, tls->resumption, "resumption", message + 13, nonce, psk,
	           sizeof(psk));
	prepare_ticket(context, psk);
	return 0;
}

static int take_message(struct load_tls *tls, const uint8_t *message, size_t size)
{
	if (tls->state == TLS_OPEN)
		return message[0] == MESSAGE_NEW_TICKET ? take_ticket(tls, message, size) : 0;
	note_message(tls, message, size);
	if (tls->state == TLS_HELLO)
		return message[0] == MESSAGE_SERVER_HELLO ? take_hello(tls, message, size) : -1;
	if (message[0] == MESSAGE_FINISHED)
		take_finished(tls);
	return 0;
}

static int take_messages(struct load_tls *tls, const uint8_t *text, size_t size)
{
	if (size > IN_BYTES - tls->message_bytes)
		return -1;
	memcpy(tls->messages + tls->message_bytes, text, size);
	tls->message_bytes += size;
	size_t at = 0;
	while (tls->message_bytes - at >= 4) {
		size_t length = 4 + get24(tls->messages + at + 1);
		if (length > tls->message_bytes - at)
			break;
		if (take_message(tls, tls->messages + at, length) != 0)
			return -1;
		at += length;
	}
	tls->message_bytes -= at;
	memmove(tls->messages, tls->messages + at, tls->message_bytes);
	return 0;
}

/* One record. Application data goes to `out`; its size, or -1. */
static long take_record(struct load_tls *tls, uint8_t *record, size_t size, char *out, size_t room)
{
	uint8_t type = record[0];
	long text = (long)size - TLS_RECORD_HEAD;
	if (type == RECORD_CHANGE_CIPHER)
		return 0;
	if (type == RECORD_DATA)
		text = tls_open(&tls->in, record, size, &type);
	if (text < 0)
		return -1;
	switch (type) {
	case RECORD_HANDSHAKE: return take_messages(tls, record + TLS_RECORD_HEAD, (size_t)text);
	case RECORD_ALERT: tls->state = TLS_CLOSED; return 0;
	case RECORD_DATA:
		if ((size_t)text > room)
			return -1;
		memcpy(out, record + TLS_RECORD_HEAD, (size_t)text);
		return text;
	default: return -1;
	}
}

/* All whole records that have come, up to the end of the server's handshake. */
static long take_records(struct load_tls *tls, char *out, size_t room)
{
	size_t at = 0;
	long got = 0;
	while (tls->have - at >= TLS_RECORD_HEAD) {
		size_t size = TLS_RECORD_HEAD + get16(tls->bytes + at + 3);
		if (size > IN_BYTES)
			return -1;
		if (size > tls->have - at)
			break;
		long text = take_record(tls, tls->bytes + at, size, out + got, room - (size_t)got);
		if (text < 0)
			return -1;
		got += text;
		at += size;
	}
	tls->have -= at;
	memmove(tls->bytes, tls->bytes + at, tls->have);
	return got;
}

/* As recv(). */
static long fill(struct load_tls *tls)
{
	ssize_t got = recv(tls->fd, tls->bytes + tls->have, IN_BYTES - tls->have, MSG_DONTWAIT);
	if (got > 0)
		tls->have += (size_t)got;
	if (got < 0)
		return errno == EAGAIN ? -1 : -2;
	return got;
}

enum load_tls_step load_tls_handshake(struct load_tls *tls, bool *ret_resumed)
{
	long got = fill(tls);
	if (got == -1)
		return LOAD_TLS_AGAIN;
	if (got <= 0 || take_records(tls, NULL, 0) < 0 || tls->state == TLS_CLOSED)
		return LOAD_TLS_FAILED;
	if (tls->state != TLS_FINISHED)
		return LOAD_TLS_AGAIN;
	/* The server has forgotten the ticket's key: take its next ticket. */
	if (tls->offered && !tls->resumed)
		tls->context->ticket.usable = false;
	*ret_resumed = tls->resumed;
	return LOAD_TLS_READY;
}

static size_t seal_finished(struct load_tls *tls, uint8_t *record)
{
	struct tls_suite *suite = &tls->context->suite;
	uint8_t *message = record + TLS_RECORD_HEAD;
	uint8_t hash[TLS_HASH_BYTES];
	uint8_t key[TLS_HASH_BYTES];
	transcript_now(tls, hash);
	tls_expand(suite, tls->client, "finished", NULL, 0, key, sizeof(key));
	message[0] = MESSAGE_FINISHED;
	message[1] = message[2] = 0;
	message[3] = TLS_HASH_BYTES;
	tls_hmac(suite, key, hash, sizeof(hash), message + 4);
	if (tls->context->resume && !tls->context->ticket.usable) {
		note_message(tls, message, 4 + TLS_HASH_BYTES);
		transcript_now(tls, hash);
		tls_derive(suite, tls->master, "res master", hash, tls->resumption);
	}
	size_t size = tls_seal(&tls->out, record, 4 + TLS_HASH_BYTES, RECORD_HANDSHAKE);
	tls_traffic_key(&tls->out, suite, tls->client_data);
	tls->state = TLS_OPEN;
	return size;
}

int load_tls_send(struct load_tls *tls, const char *bytes, size_t size)
{
	static uint8_t out[LOAD_REQUEST_MAX + 256];
	size_t at = tls->state == TLS_FINISHED ? seal_finished(tls, out) : 0;
	CHECK(size <= LOAD_REQUEST_MAX);
	memcpy(out + at + TLS_RECORD_HEAD, bytes, size);
	at += tls_seal(&tls->out, out + at, size, RECORD_DATA);
	ssize_t sent = send(tls->fd, out, at, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == (ssize_t)at ? 0 : -1;
}

long load_tls_recv(struct load_tls *tls, char *bytes, size_t size)
{
	if (tls->state == TLS_CLOSED)
		return 0;
	long got = fill(tls);
	if (got <= 0)
		return got;
	long text = take_records(tls, bytes, size);
	if (text < 0)
		return -2;
	if (text > 0)
		return text;
	return tls->state == TLS_CLOSED ? 0 : -1;
}

void load_tls_end(struct load_tls *tls)
{
	tls->next = tls->context->spare;
	tls->context->spare = tls;
}
