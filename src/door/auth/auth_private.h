/*
 * auth_private: what auth.c and auth_signature.c share.
 *
 * Room: door/auth.
 */
#pragma once

#include "base/secret.h"
#include "codec/ip.h"
#include "door/auth/auth.h"
#include "net/tls/hmac.h"

#define AUTH_TOLERANCE_S 300
#define AUTH_SECRET_MIN 16 /* bytes; shorter ones can be guessed */

/* A URL in pieces, as the sender wrote it. */
struct auth_url {
	bool secure; /* https */
	struct span host;
	struct span port;   /* empty: none */
	struct span prefix; /* of the path, removed by a proxy */
	struct span target; /* path and query */
};

enum auth_part_kind {
	AUTH_PART_BODY = 0,
	AUTH_PART_HEADER, /* text: its name */
	AUTH_PART_PATH,
	AUTH_PART_METHOD,
	AUTH_PART_URL,
	AUTH_PART_TEXT, /* text: itself */
};

struct auth_part {
	enum auth_part_kind kind;
	struct span text;
};

struct auth {
	enum auth_kind kind;
	char *memory; /* all text below; wiped by auth_free() */
	size_t memory_len, memory_room;

	struct span header;
	struct span prefix;        /* before the key or signature; schemes ignore case */
	uint32_t credential_count; /* HEADER, BASIC, BEARER: one must follow the prefix */
	struct span credentials[AUTH_SECRETS_MAX];

	enum hmac_algorithm algorithm;
	enum auth_encoding encoding;
	uint32_t key_count;
	struct hmac_key *keys[AUTH_SECRETS_MAX];
	uint32_t public_count;
	unsigned char public_keys[AUTH_SECRETS_MAX][SIGN_PUBLIC_LEN];
	uint32_t part_count;
	struct auth_part parts[AUTH_SIGNED_MAX];
	struct span timestamp; /* name of the header with it; empty: not judged */
	uint32_t tolerance_s;
	bool has_url; /* else from Host */
	struct auth_url url;

	uint32_t name_count;
	struct span names[AUTH_NETWORKS_MAX];
	uint32_t network_count;
	struct ip_network networks[AUTH_NETWORKS_MAX];
	char warning[ERROR_TEXT_MAX]; /* empty: none */
};

/* Writes the reason (into NULL: nothing) and is the result. A macro, so that static analysis
 * sees that it is never AUTH_OK. */
#define AUTH_REFUSE(ret_why, result, ...) ((void)error_fill(ret_why, 0, __VA_ARGS__), (result))

#define AUTH_TEXT(span) (int)(span).len, (span).ptr /* for "%.*s" */

/* auth.c */
/* A1. MISSING, WRONG when there are several, or OK. */
enum auth_result auth_find_header(const struct auth_request *request, struct span name,
                                  struct span *ret_value, struct error_text *ret_why) must_check;

/* auth_signature.c */
enum auth_result auth_check_hmac(const struct auth *auth, const struct auth_request *request,
                                 struct error_text *ret_why) must_check;
enum auth_result auth_check_stripe(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why) must_check;
enum auth_result auth_check_standard(const struct auth *auth, const struct auth_request *request,
                                     struct error_text *ret_why) must_check;

/* ERR_INVALID for anything but http[s]://HOST[:PORT][/PREFIX]. */
int auth_url_parse(struct span text, struct auth_url *ret_url) must_check;
enum auth_result auth_check_twilio(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why) must_check;
