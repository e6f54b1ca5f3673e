/*
 * auth_spec: how a source authenticates its senders, as the configuration says it.
 * auth_new() checks it.
 *
 * Secrets have at least 16 bytes; where another system chooses them (HEADER, BASIC, BEARER,
 * TWILIO) a shorter one is only a warning. They are used as they are written, except for
 * whsec_ and whpk_ of Standard Webhooks, which are base64.
 *
 * Room:      door/auth. Threads: values.
 * Ownership: spans belong to the caller (the configuration); auth_new() copies what it keeps
 *            and wipes it when freed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define AUTH_SECRETS_MAX 5
#define AUTH_NETWORKS_MAX 32
#define AUTH_SIGNED_MAX 8

enum auth_kind {
	AUTH_NONE = 0,
	AUTH_HEADER,            /* header, secrets: an API key */
	AUTH_BASIC,             /* user, secrets */
	AUTH_BEARER,            /* secrets */
	AUTH_STANDARD_WEBHOOKS, /* secrets whsec_… (HMAC) or whpk_… (ed25519); also svix-… */
	AUTH_HMAC,              /* algorithm, header, encoding, prefix, signed_parts, secrets */
	AUTH_GENESYS,           /* open messaging: X-Hub-Signature-256, base64 */
	AUTH_GITHUB,            /* X-Hub-Signature-256, hex */
	AUTH_STRIPE,            /* Stripe-Signature: t=…,v1=… */
	AUTH_SHOPIFY,           /* X-Shopify-Hmac-Sha256, base64 */
	AUTH_TWILIO,            /* X-Twilio-Signature over url and parameters, SHA-1 */
	AUTH_CERTIFICATE,       /* a client certificate whose name is in `names` */
};

enum auth_algorithm { AUTH_SHA256 = 0, AUTH_SHA1, AUTH_SHA512 };
enum auth_encoding { AUTH_HEX = 0, AUTH_BASE64 };

struct auth_spec {
	enum auth_kind kind;
	struct span header; /* HEADER, HMAC */
	struct span user;   /* BASIC */
	uint32_t secret_count;
	struct span secrets[AUTH_SECRETS_MAX]; /* resolved: no ${…} or file: any more */
	enum auth_algorithm algorithm;         /* HMAC */
	enum auth_encoding encoding;
	struct span prefix; /* HMAC: before the signature, e.g. "sha256=" */
	/* HMAC: what is signed, joined in this order: "body", "header:NAME", "path"
	 * (without the query), "method", "url" (see public_url) or "const:TEXT". None:
	 * the body. */
	uint32_t signed_count;
	struct span signed_parts[AUTH_SIGNED_MAX];
	/* HMAC: which of the signed parts holds unix seconds, "header:NAME"; empty:
	 * not checked. */
	struct span timestamp;
	uint32_t tolerance_s; /* of time stamps; 0: 300 */
	/* TWILIO, HMAC with "url": https://HOST[:PORT][/PREFIX], as the sender calls
	 * us; the request's path and query follow. The whole URL without its query
	 * is taken too. Empty: http or https as the connection is, and what the Host
	 * header says. */
	struct span public_url;
	uint32_t name_count; /* CERTIFICATE: subject or DNS names; none: any that verifies */
	struct span names[AUTH_NETWORKS_MAX];
	uint32_t network_count; /* any kind: allowed addresses, CIDR; none: all */
	struct span networks[AUTH_NETWORKS_MAX];
};
