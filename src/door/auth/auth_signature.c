/*
 * Signatures over the message: generic HMAC (GitHub, Genesys and Shopify are
 * cases of it), Stripe, Standard Webhooks. See auth.h.
 *
 * All three do the same: gather what the sender says it signed with (given), and
 * what it must have signed (message), then try every secret on every signature.
 */
#include "base/base64.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "door/auth/auth_private.h"

#define GIVEN_MAX 8 /* signatures in one header: rotation needs two or three */
/* Each try of a public key reads the whole body and costs some 50 µs more, before
 * the sender is known. Two signatures with every key are enough for a rotation. */
#define PUBLIC_TRIES_MAX (2 * AUTH_SECRETS_MAX)
#define URL_PIECES 6
#define MESSAGE_MAX (AUTH_SIGNED_MAX * URL_PIECES)

_Static_assert(SIGN_SIGNATURE_LEN <= HMAC_MAX, "one buffer for both");

struct given {
	uint32_t count;
	struct {
		bool by_public_key;
		unsigned char bytes[HMAC_MAX];
		size_t len;
	} list[GIVEN_MAX];
};

struct message {
	uint32_t count;
	struct span parts[MESSAGE_MAX];
};

static void add_part(struct message *message, struct span part)
{
	CHECK(message->count < MESSAGE_MAX);
	message->parts[message->count++] = part;
}

/* The length is judged before anything else (A2); what cannot be a signature of
 * this kind is not one (A3). False: there are too many. */
static bool add_given(struct given *given, struct span text, enum auth_encoding encoding,
                      size_t len, bool by_public_key)
{
	size_t i = given->count, decoded = len;
	if (text.len != (encoding == AUTH_HEX ? len * 2 : BASE64_LEN(len)))
		return true;
	if (i == GIVEN_MAX)
		return false;
	unsigned char *bytes = given->list[i].bytes;
	bool valid = encoding == AUTH_HEX ? hex_decode(text, bytes, HMAC_MAX)
	                                  : !base64_decode(text, bytes, HMAC_MAX, &decoded);
	if (!valid || decoded != len)
		return true;
	given->list[i].len = len;
	given->list[i].by_public_key = by_public_key;
	given->count++;
	return true;
}

/* A2: every key with every signature, without an early end. */
static int try_keys(const struct auth *auth, const struct message *message,
                    const struct given *given, bool *ret_fits)
{
	unsigned char code[HMAC_MAX];
	struct hmac hmac = { 0 };
	size_t len = hmac_len(auth->algorithm);
	bool fits = false;
	int error = 0;
	for (uint32_t k = 0; k < auth->key_count && !error; k++) {
		hmac_begin(&hmac, auth->keys[k]);
		for (uint32_t i = 0; i < message->count; i++)
			hmac_update(&hmac, message->parts[i]);
		error = hmac_end(&hmac, code);
		for (uint32_t i = 0; i < given->count && !error; i++)
			if (!given->list[i].by_public_key)
				fits |= secret_equal(span_of(code, len),
				                     span_of(given->list[i].bytes, len));
	}
	hmac_close(&hmac);
	secret_wipe(code, sizeof(code));
	*ret_fits = fits;
	return error;
}

static char *join(const struct message *message, size_t *ret_len)
{
	size_t len = 0;
	for (uint32_t i = 0; i < message->count; i++)
		len += message->parts[i].len;
	char *bytes = mem_alloc(len + 1), *at = bytes;
	if (!bytes)
		return NULL;
	for (uint32_t i = 0; i < message->count; i++) {
		if (message->parts[i].len > 0)
			memcpy(at, message->parts[i].ptr, message->parts[i].len);
		at += message->parts[i].len;
	}
	*ret_len = len;
	return bytes;
}

/* Nothing here is secret, so the first that fits is enough. What has not fitted after
 * PUBLIC_TRIES_MAX does not fit. */
static int try_public_keys(const struct auth *auth, const struct message *message,
                           const struct given *given, bool *ret_fits)
{
	cleanup_free char *bytes = NULL;
	uint32_t tries = 0;
	size_t len = 0;
	for (uint32_t i = 0; i < given->count; i++) {
		if (!given->list[i].by_public_key)
			continue;
		if (!bytes && !(bytes = join(message, &len)))
			return -ENOMEM;
		for (uint32_t k = 0; k < auth->public_count && !*ret_fits; k++) {
			if (tries++ == PUBLIC_TRIES_MAX)
				return 0;
			*ret_fits = sign_verify(auth->public_keys[k], given->list[i].bytes,
			                        span_of(bytes, len));
		}
	}
	return 0;
}

/* `header` is where the signatures were. */
static enum auth_result match(const struct auth *auth, struct span header,
                              const struct message *message, const struct given *given,
                              struct error_text *ret_why)
{
	bool fits = false;
	int error = 0;
	if (given->count == 0)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "header %.*s holds no whole signature of the expected kind",
		                   AUTH_TEXT(header));
	error = try_keys(auth, message, given, &fits);
	if (!error && auth->public_count > 0)
		error = try_public_keys(auth, message, given, &fits);
	if (error)
		return AUTH_REFUSE(ret_why, AUTH_NO_MEMORY, "no memory to check a signature");
	if (!fits)
		return AUTH_REFUSE(ret_why, AUTH_WRONG,
		                   "none of the %u secrets gives the signature in header %.*s",
		                   auth->key_count + auth->public_count, AUTH_TEXT(header));
	return AUTH_OK;
}

static enum auth_result too_many(struct span header, struct error_text *ret_why)
{
	return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds more than %d signatures",
	                   AUTH_TEXT(header), GIVEN_MAX);
}

/* A4: only called when the signature was right. */
static enum auth_result check_time(const struct auth *auth, struct span text, uint64_t now_s,
                                   struct error_text *ret_why)
{
	uint64_t time_s;
	if (text_parse_u64(text, &time_s))
		return AUTH_REFUSE(ret_why, AUTH_STALE,
		                   "the signed time stamp is no number of seconds");
	bool past = time_s <= now_s;
	uint64_t gap_s = past ? now_s - time_s : time_s - now_s;
	if (gap_s > auth->tolerance_s)
		return AUTH_REFUSE(ret_why, AUTH_STALE,
		                   "the signed time stamp is %llu s %s, %u s are allowed",
		                   (unsigned long long)gap_s, past ? "old" : "ahead",
		                   auth->tolerance_s);
	return AUTH_OK;
}

static enum auth_result add_url(const struct auth *auth, const struct auth_request *request,
                                struct message *message, struct error_text *ret_why)
{
	struct auth_url url;
	enum auth_result result = auth_url_read(auth, request, &url, ret_why);
	if (result != AUTH_OK)
		return result;
	add_part(message, url.secure ? SPAN("https://") : SPAN("http://"));
	add_part(message, url.host);
	add_part(message, url.port.len > 0 ? SPAN(":") : SPAN_EMPTY);
	add_part(message, url.port);
	add_part(message, url.prefix);
	add_part(message, url.target);
	return AUTH_OK;
}

static enum auth_result add_signed_part(const struct auth *auth, const struct auth_part *part,
                                        const struct auth_request *request, struct message *message,
                                        struct error_text *ret_why)
{
	struct span value;
	enum auth_result result;
	switch (part->kind) {
	case AUTH_PART_URL: return add_url(auth, request, message, ret_why);
	case AUTH_PART_HEADER:
		result = auth_find_header(request, part->text, &value, ret_why);
		if (result != AUTH_OK)
			return result;
		break;
	case AUTH_PART_BODY: value = request->body; break;
	case AUTH_PART_PATH: value = request->head->path; break;
	case AUTH_PART_METHOD: value = request->head->method_text; break;
	default: value = part->text; break;
	}
	add_part(message, value);
	return AUTH_OK;
}

enum auth_result auth_check_hmac(const struct auth *auth, const struct auth_request *request,
                                 struct error_text *ret_why)
{
	struct span value, time;
	struct given given = { .count = 0 };
	struct message message = { .count = 0 };
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result == AUTH_OK && span_cut_start(&value, auth->prefix))
		add_given(&given, value, auth->encoding, hmac_len(auth->algorithm), false);
	for (uint32_t i = 0; i < auth->part_count && result == AUTH_OK; i++)
		result = add_signed_part(auth, &auth->parts[i], request, &message, ret_why);
	if (result == AUTH_OK)
		result = match(auth, auth->header, &message, &given, ret_why);
	if (result != AUTH_OK || auth->timestamp.len == 0)
		return result;
	/* It is one of the signed parts, so it is there once. */
	result = auth_find_header(request, auth->timestamp, &time, ret_why);
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}

/* "t=1492774577,v1=…,v1=…,v0=…": schemes that are not known are left alone. */
static enum auth_result read_stripe(const struct auth *auth, struct span value, struct given *given,
                                    struct span *time, struct error_text *ret_why)
{
	*time = SPAN_EMPTY;
	while (value.len > 0) {
		struct span item = span_cut_item(&value, ',');
		if (span_cut_start(&item, SPAN("v1="))) {
			if (!add_given(given, item, AUTH_HEX, hmac_len(auth->algorithm), false))
				return too_many(auth->header, ret_why);
		} else if (span_cut_start(&item, SPAN("t="))) {
			if (time->ptr)
				return AUTH_REFUSE(ret_why, AUTH_WRONG,
				                   "header %.*s holds two time stamps",
				                   AUTH_TEXT(auth->header));
			*time = item;
		}
	}
	if (time->len == 0)
		return AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds no time stamp",
		                   AUTH_TEXT(auth->header));
	return AUTH_OK;
}

enum auth_result auth_check_stripe(const struct auth *auth, const struct auth_request *request,
                                   struct error_text *ret_why)
{
	struct span value, time;
	struct given given = { .count = 0 };
	enum auth_result result = auth_find_header(request, auth->header, &value, ret_why);
	if (result == AUTH_OK)
		result = read_stripe(auth, value, &given, &time, ret_why);
	if (result == AUTH_OK) {
		struct message message = { 3, { time, SPAN("."), request->body } };
		result = match(auth, auth->header, &message, &given, ret_why);
	}
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}

/* "v1,BASE64 v1a,BASE64 …": versions that are not known are left alone. False: there
 * are too many. */
static bool read_standard(const struct auth *auth, struct span value, struct given *given)
{
	bool room = true;
	while (value.len > 0 && room) {
		struct span item = span_cut_item(&value, ' ');
		if (auth->key_count > 0 && span_cut_start(&item, SPAN("v1,")))
			room = add_given(given, item, AUTH_BASE64, hmac_len(auth->algorithm),
			                 false);
		else if (auth->public_count > 0 && span_cut_start(&item, SPAN("v1a,")))
			room = add_given(given, item, AUTH_BASE64, SIGN_SIGNATURE_LEN, true);
	}
	return room;
}

/* The names of the specification, and those of before it, which many still send. */
static const struct standard_names {
	struct span id, time, signature;
} standard_names = { { "webhook-id", 10 },
	             { "webhook-timestamp", 17 },
	             { "webhook-signature", 17 } },
  svix_names = { { "svix-id", 7 }, { "svix-timestamp", 14 }, { "svix-signature", 14 } };

/* One set or the other, never of both: what is not signed must not stand for what
 * is. So any of the first set makes it that one. */
static const struct standard_names *names_of(const struct auth_request *request)
{
	const struct http1_head *head = request->head;
	bool standard = http1_header_find(head, standard_names.id) ||
	                http1_header_find(head, standard_names.time) ||
	                http1_header_find(head, standard_names.signature);
	bool svix = http1_header_find(head, svix_names.id) ||
	            http1_header_find(head, svix_names.time) ||
	            http1_header_find(head, svix_names.signature);
	return svix && !standard ? &svix_names : &standard_names;
}

/* The id must not hold the dot that ends it: else one signature would fit several
 * triples of id, time and body. The specification forbids it to senders. */
enum auth_result auth_check_standard(const struct auth *auth, const struct auth_request *request,
                                     struct error_text *ret_why)
{
	const struct standard_names *names = names_of(request);
	struct span value, id, time;
	struct given given = { .count = 0 };
	enum auth_result result = auth_find_header(request, names->signature, &value, ret_why);
	if (result == AUTH_OK)
		result = auth_find_header(request, names->id, &id, ret_why);
	if (result == AUTH_OK)
		result = auth_find_header(request, names->time, &time, ret_why);
	if (result == AUTH_OK && memchr(id.ptr, '.', id.len))
		result = AUTH_REFUSE(ret_why, AUTH_WRONG, "header %.*s holds a dot",
		                     AUTH_TEXT(names->id));
	if (result == AUTH_OK && !read_standard(auth, value, &given))
		result = too_many(names->signature, ret_why);
	if (result == AUTH_OK) {
		struct message message = { 5, { id, SPAN("."), time, SPAN("."), request->body } };
		result = match(auth, names->signature, &message, &given, ret_why);
	}
	return result == AUTH_OK ? check_time(auth, time, request->now_s, ret_why) : result;
}
