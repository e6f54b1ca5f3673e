/*
 * redis_client: see redis_client.h.
 *
 * A call is either sent, and in the list of its node in the order of the replies, or it
 * waits in `parked` until its node can be reached. While there are calls, a timer checks
 * both lists every few milliseconds.
 */
#include "link/redis_client.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/resp.h"
#include "link/redis_link.h"

/* ---- slots of a cluster ---- */

/* CRC16-XMODEM, bit by bit: keys of a shard are hashed once. */
static uint32_t crc16(struct span bytes)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < bytes.len; i++) {
		crc ^= (uint32_t)(unsigned char)bytes.ptr[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000u ? crc << 1 ^ 0x1021u : crc << 1) & 0xffffu;
	}
	return crc;
}

uint32_t redis_slot_of(struct span key)
{
	struct span rest = key;

	span_cut_item(&rest, '{');
	size_t before = rest.len;
	struct span tag = span_cut_item(&rest, '}');
	bool closed = tag.len > 0 && tag.len < before;
	return crc16(closed ? tag : key) % REDIS_SLOTS;
}

static bool number_next(struct span reply, size_t *at, int64_t least, int64_t most,
                        int64_t *ret_number)
{
	struct resp_reply value;

	if (!resp_reply_next(reply, at, &value) || value.kind != RESP_REPLY_NUMBER ||
	    value.number < least || value.number > most)
		return false;
	*ret_number = value.number;
	return true;
}

/* Host, port, and what else there is. */
static bool host_next(struct span reply, size_t *at, const struct redis_host *asked,
                      struct redis_host *ret_host)
{
	struct resp_reply node, name;
	int64_t port;

	if (!resp_reply_next(reply, at, &node) || node.kind != RESP_REPLY_ARRAY ||
	    node.number < 2 || !resp_reply_next(reply, at, &name) ||
	    !number_next(reply, at, 1, 65535, &port))
		return false;
	for (int64_t i = 2; i < node.number; i++)
		resp_reply_skip(reply, at);
	*ret_host = *asked;
	if (name.kind == RESP_REPLY_TEXT && name.text.len > 0) {
		if (name.text.len > REDIS_HOST_MAX)
			return false;
		memcpy(ret_host->name, name.text.ptr, name.text.len);
		ret_host->name[name.text.len] = '\0';
	}
	ret_host->port = (uint16_t)port;
	return true;
}

static bool range_next(struct span reply, size_t *at, const struct redis_host *asked,
                       struct redis_slots_range *ret_range)
{
	struct resp_reply entry;
	int64_t first, last;

	if (!resp_reply_next(reply, at, &entry) || entry.kind != RESP_REPLY_ARRAY ||
	    entry.number < 3 || !number_next(reply, at, 0, REDIS_SLOTS - 1, &first) ||
	    !number_next(reply, at, first, REDIS_SLOTS - 1, &last) ||
	    !host_next(reply, at, asked, &ret_range->master))
		return false;
	for (int64_t i = 3; i < entry.number; i++)
		resp_reply_skip(reply, at);
	ret_range->first = (uint32_t)first;
	ret_range->last = (uint32_t)last;
	ret_range->replicas = (uint32_t)(entry.number - 3);
	return true;
}

bool redis_slots_walk(struct span reply, const struct redis_host *asked,
                      void (*range)(void *user, const struct redis_slots_range *range), void *user)
{
	struct resp_reply whole;
	struct redis_slots_range found;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &whole) || whole.kind != RESP_REPLY_ARRAY)
		return false;
	for (int64_t i = 0; i < whole.number; i++) {
		if (!range_next(reply, &at, asked, &found))
			return false;
		range(user, &found);
	}
	return true;
}

/* ---- the client ---- */

#define LOOK_MS 5u
#define RETRY_MS 20u
#define REFRESH_MS 100u
#define REFRESH_TIMEOUT_MS 1000u
#define NO_NODE UINT32_MAX
#define WARNINGS_MAX 4u /* about one node, until it is back */

struct call_list {
	struct redis_call *head;
	struct redis_call **tail;
};

struct node {
	struct redis_client *client;
	struct redis_link *link;
	struct call_list sent;
	uint32_t warnings; /* logged since it was last reached */
	char code[16];     /* the server's error code in the last of them */
	/* It can be reached, and rejects commands: */
	enum { REFUSES_NOTHING = 0, REFUSES_ALL, REFUSES_WRITES } refuses;
	bool named;  /* by the login: never removed */
	bool mapped; /* it has slots in the newest map */
};

struct redis_client {
	struct redis_client_options options;
	const struct redis_login *login;
	struct node *nodes[REDIS_NODES_MAX]; /* NULL: removed */
	uint32_t node_count;
	uint32_t *slots; /* a cluster's: node of each, or NO_NODE */
	struct call_list parked;
	uint32_t calls;
	struct loop_timer timer;
	struct redis_call refresh;
	bool refreshing, refresh_wanted;
	bool map_is_new; /* nodes that left the cluster are still to be removed */
	uint64_t refresh_at_ms;
	uint32_t refresh_node; /* the one to ask next */
	char trouble[512];
};

static void list_init(struct call_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}

static void list_add(struct call_list *list, struct redis_call *call)
{
	call->next = NULL;
	*list->tail = call;
	list->tail = &call->next;
}

static struct redis_call *list_cut(struct call_list *list)
{
	struct redis_call *call = list->head;

	if (call) {
		list->head = call->next;
		if (!list->head)
			list->tail = &list->head;
	}
	return call;
}

const char *redis_client_trouble(const struct redis_client *client)
{
	return client->trouble;
}

static uint64_t now_ms(const struct redis_client *client)
{
	return loop_now_ms(client->options.loop);
}

/* ---- nodes ---- */

static void link_up(void *user);
static void link_reply(void *user, struct span reply);
static void link_down(void *user, const char *why);

/* NO_NODE: no memory, or too many. */
static uint32_t node_get(struct redis_client *client, const struct redis_host *host)
{
	uint32_t place = client->node_count;

	for (uint32_t i = client->node_count; i-- > 0;) {
		if (!client->nodes[i]) {
			place = i;
			continue;
		}
		const struct redis_host *known = redis_link_host(client->nodes[i]->link);
		if (known->port == host->port &&
		    span_eq(span_str(known->name), span_str(host->name)))
			return i;
	}
	if (place == REDIS_NODES_MAX)
		return NO_NODE;
	struct node *node = mem_zalloc(1, sizeof(*node));
	if (!node)
		return NO_NODE;
	struct redis_link_options options = {
		.loop = client->options.loop,
		.login = client->login,
		.host = *host,
		.script = client->options.script,
		.up = link_up,
		.reply = link_reply,
		.down = link_down,
		.user = node,
	};
	if (redis_link_new(&options, &node->link) < 0) {
		mem_free(node);
		return NO_NODE;
	}
	node->client = client;
	list_init(&node->sent);
	client->nodes[place] = node;
	if (place == client->node_count)
		client->node_count++;
	return place;
}

static uint32_t node_of(const struct redis_client *client, const struct redis_call *call)
{
	if (call->ask_node != NO_NODE)
		return call->ask_node;
	if (!client->slots)
		return 0;
	if (call->slot != REDIS_ANY_SLOT)
		return client->slots[call->slot];
	for (uint32_t i = 0; i < client->node_count; i++)
		if (client->nodes[i] && redis_link_is_up(client->nodes[i]->link))
			return i;
	return 0;
}

/* ---- sending ---- */

static void park(struct redis_client *client, struct redis_call *call, uint32_t after_ms)
{
	call->stage = REDIS_CALL_PARKED;
	call->retry_at_ms = now_ms(client) + after_ms;
	list_add(&client->parked, call);
}

static void write_call(struct redis_call *call, struct node *node)
{
	struct buf *out = redis_link_out(node->link);

	if (call->ask_node != NO_NODE) {
		resp_request_begin(out, 1);
		resp_request_add(out, SPAN("ASKING"));
	}
	resp_request_begin(out, call->count + (call->script ? 2 : 0));
	if (call->script) {
		resp_request_add(out, SPAN("EVALSHA"));
		resp_request_add(out, span_of(redis_link_sha(node->link), REDIS_LINK_SHA_LEN));
	}
	buf_append_span(out, buf_span(&call->arguments));
	call->stage = call->ask_node != NO_NODE ? REDIS_CALL_ASKING : REDIS_CALL_RESULT;
}

static bool is_waited_for(const struct redis_client *client, const struct redis_call *call)
{
	return call->writes && client->login->replicas > 0;
}

static void write_wait(struct redis_client *client, struct node *node)
{
	struct buf *out = redis_link_out(node->link);

	resp_request_begin(out, 3);
	resp_request_add(out, SPAN("WAIT"));
	resp_request_add_u64(out, client->login->replicas);
	resp_request_add_u64(out, client->login->wait_ms);
}

static void send_call(struct redis_client *client, struct redis_call *call)
{
	uint32_t at = node_of(client, call);

	if (at == NO_NODE) {
		client->refresh_wanted = true;
		park(client, call, LOOK_MS);
		return;
	}
	struct node *node = client->nodes[at];
	if (!redis_link_is_up(node->link)) {
		redis_link_start(node->link);
		call->ask_node = NO_NODE;
		park(client, call, LOOK_MS);
		return;
	}
	call->node = at;
	write_call(call, node);
	if (is_waited_for(client, call))
		write_wait(client, node);
	list_add(&node->sent, call);
	redis_link_flush(node->link);
}

static void finish(struct redis_client *client, struct redis_call *call, int error,
                   struct span reply)
{
	client->calls--;
	call->done(call, error, reply);
}

static void timer_begin(struct redis_client *client)
{
	if (client->timer.slot == 0)
		(void)!loop_timer_set(client->options.loop, &client->timer, LOOK_MS);
}

void redis_client_call(struct redis_client *client, struct redis_call *call)
{
	CHECK(call->done);
	CHECK(call->arguments.failed == 0);
	call->ask_node = NO_NODE;
	call->tries = 0;
	client->calls++;
	send_call(client, call);
	timer_begin(client);
}

static void list_hurry(struct call_list *list, uint64_t deadline_ms)
{
	for (struct redis_call *call = list->head; call; call = call->next)
		if (call->deadline_ms > deadline_ms)
			call->deadline_ms = deadline_ms;
}

void redis_client_hurry(struct redis_client *client, uint64_t deadline_ms)
{
	list_hurry(&client->parked, deadline_ms);
	for (uint32_t i = 0; i < client->node_count; i++)
		if (client->nodes[i])
			list_hurry(&client->nodes[i]->sent, deadline_ms);
}

void redis_call_free(struct redis_call *call)
{
	buf_free(&call->kept);
	buf_free(&call->arguments);
}

/* ---- answers ---- */

/* "MOVED 3999 127.0.0.1:6381": the node, or NO_NODE. */
static uint32_t redirect_node(struct redis_client *client, struct span text, uint32_t asked)
{
	struct redis_host host = *redis_link_host(client->nodes[asked]->link);
	uint64_t port;

	span_cut_item(&text, ' ');
	span_cut_item(&text, ' ');
	size_t colon = text.len;
	while (colon > 0 && text.ptr[colon - 1] != ':')
		colon--;
	if (colon == 0 || colon - 1 > REDIS_HOST_MAX ||
	    text_parse_u64(span_skip(text, colon), &port) < 0 || port == 0 || port > 65535)
		return NO_NODE;
	if (colon > 1) { /* else the same host */
		memcpy(host.name, text.ptr, colon - 1);
		host.name[colon - 1] = '\0';
	}
	host.port = (uint16_t)port;
	return node_get(client, &host);
}

/* ---- nodes that cannot be reached ---- */

/* Logs it once, and again when the server gives an error code: at first often only the end of
 * the connection is seen. */
static void report_away(struct node *node, const char *why)
{
	const struct redis_host *host = redis_link_host(node->link);
	struct redis_client *client = node->client;
	char code[sizeof(node->code)];
	size_t len = strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); /* as NOAUTH */

	if (why[len] != ' ' || len < 3 || len >= sizeof(code))
		len = 0;
	memcpy(code, why, len);
	code[len] = '\0';
	snprintf(client->trouble, sizeof(client->trouble), "%s:%u: %.200s", host->name, host->port,
	         why);
	if (node->warnings >= WARNINGS_MAX ||
	    (node->warnings > 0 && (len == 0 || strcmp(code, node->code) == 0)))
		return;
	log_warn("redis is unreachable", log_str("host", host->name), log_u64("port", host->port),
	         log_str("reason", why));
	node->warnings++;
	memcpy(node->code, code, len + 1);
}

static void report_back(struct node *node)
{
	if (node->warnings > 0)
		log_info("redis is reachable again",
		         log_str("host", redis_link_host(node->link)->name),
		         log_u64("port", redis_link_host(node->link)->port));
	node->warnings = 0;
}

static bool is_temporary(const struct resp_reply *value)
{
	static const struct span words[] = {
		{ "TRYAGAIN", 8 }, { "CLUSTERDOWN", 11 }, { "LOADING", 7 },
		{ "READONLY", 8 }, { "MASTERDOWN", 10 },  { "BUSY", 4 },
		{ "NOSCRIPT", 8 }, { "NOREPLICAS", 10 },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (resp_reply_says(value, words[i]))
			return true;
	return false;
}

/* True: the call is sent again, or to another node. */
static bool retries(struct redis_client *client, struct redis_call *call,
                    const struct resp_reply *value)
{
	call->ask_node = NO_NODE;
	if (resp_reply_says(value, SPAN("MOVED")) || resp_reply_says(value, SPAN("ASK"))) {
		uint32_t node = redirect_node(client, value->text, call->node);
		bool moved = resp_reply_says(value, SPAN("MOVED"));
		client->refresh_wanted |= moved;
		if (moved && client->slots && call->slot < REDIS_SLOTS)
			client->slots[call->slot] = node;
		else if (!moved)
			call->ask_node = node;
		if (++call->tries % 4 == 0)
			park(client, call, RETRY_MS);
		else
			send_call(client, call);
		return true;
	}
	if (!is_temporary(value))
		return false;
	if (resp_reply_says(value, SPAN("NOSCRIPT")))
		redis_link_reset(client->nodes[call->node]->link, "its script is no longer loaded");
	else if (resp_reply_says(value, SPAN("READONLY"))) {
		client->nodes[call->node]->refuses = REFUSES_WRITES;
		redis_link_reset(client->nodes[call->node]->link,
		                 "it is a replica, which takes no writes");
	} else if (!resp_reply_says(value, SPAN("TRYAGAIN"))) { /* a slot that moves */
		struct node *node = client->nodes[call->node];
		char why[REDIS_LINK_WORDS_MAX];
		node->refuses = resp_reply_says(value, SPAN("NOREPLICAS")) ? REFUSES_WRITES
		                                                           : REFUSES_ALL;
		redis_link_words(node->link, value->text, why);
		report_away(node, why);
	}
	client->refresh_wanted |= client->slots != NULL;
	park(client, call, RETRY_MS);
	return true;
}

/* Asks again whether enough replicas have it. */
static void wait_send(struct redis_client *client, struct redis_call *call)
{
	struct node *node = client->nodes[call->node];

	if (node_of(client, call) != call->node || !redis_link_is_up(node->link)) {
		park(client, call, 0);
		return;
	}
	write_wait(client, node);
	call->stage = REDIS_CALL_WAIT;
	list_add(&node->sent, call);
	redis_link_flush(node->link);
}

/* After the last reply of a call; `reply` is its result. */
static void settle(struct redis_client *client, struct redis_call *call, struct span reply,
                   bool replicated)
{
	struct resp_reply value;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &value)) {
		finish(client, call, ERR_INVALID, SPAN_EMPTY);
		return;
	}
	if (now_ms(client) < call->deadline_ms) {
		if (value.kind == RESP_REPLY_ERROR && retries(client, call, &value))
			return;
		if (value.kind != RESP_REPLY_ERROR && !replicated) {
			client->refresh_wanted |= client->slots != NULL;
			wait_send(client, call);
			return;
		}
	}
	bool whole = value.kind == RESP_REPLY_ERROR ? !is_temporary(&value) : replicated;
	struct node *node = client->nodes[call->node];
	if (value.kind != RESP_REPLY_ERROR && node->refuses != REFUSES_NOTHING &&
	    (node->refuses == REFUSES_ALL || call->writes)) {
		node->refuses = REFUSES_NOTHING; /* it executed what it refused before */
		report_back(node);
	}
	finish(client, call, whole ? 0 : ERR_AWAY, whole ? reply : SPAN_EMPTY);
}

static void link_reply(void *user, struct span reply)
{
	struct node *node = user;
	struct redis_client *client = node->client;
	struct redis_call *call = node->sent.head;
	struct resp_reply value;
	size_t at = 0;

	if (!call || !resp_reply_next(reply, &at, &value) || value.kind == RESP_REPLY_PUSH)
		return;
	if (call->stage == REDIS_CALL_ASKING) {
		call->stage = REDIS_CALL_RESULT;
		return;
	}
	if (call->stage == REDIS_CALL_RESULT && is_waited_for(client, call)) {
		buf_clear(&call->kept);
		buf_append_span(&call->kept, reply);
		call->stage = REDIS_CALL_WAIT;
		return;
	}
	CHECK(call->stage != REDIS_CALL_PARKED);
	list_cut(&node->sent);
	if (call->stage == REDIS_CALL_RESULT && !call->writes && call->wrote &&
	    client->login->replicas > 0 && call->wrote(call, reply)) {
		/* It was not expected to write, so no WAIT follows it yet. */
		buf_clear(&call->kept);
		buf_append_span(&call->kept, reply);
		wait_send(client, call);
	} else if (call->stage == REDIS_CALL_RESULT) {
		settle(client, call, reply, true);
	} else if (call->kept.failed) {
		finish(client, call, call->kept.failed, SPAN_EMPTY);
	} else {
		bool enough = value.kind == RESP_REPLY_NUMBER &&
		              value.number >= (int64_t)client->login->replicas;
		settle(client, call, buf_span(&call->kept), enough);
	}
}

/* ---- connections ---- */

static void retry_parked(struct redis_client *client)
{
	struct call_list parked = client->parked;
	uint64_t now = now_ms(client);

	if (!parked.head)
		return;
	list_init(&client->parked);
	for (struct redis_call *call = parked.head, *next; call; call = next) {
		next = call->next;
		if (now >= call->deadline_ms)
			finish(client, call, ERR_AWAY, SPAN_EMPTY);
		else if (now >= call->retry_at_ms)
			send_call(client, call);
		else
			list_add(&client->parked, call);
	}
}

static void link_up(void *user)
{
	struct node *node = user;
	struct redis_client *client = node->client;

	if (node->refuses == REFUSES_NOTHING)
		report_back(node);
	for (struct redis_call *call = client->parked.head; call; call = call->next)
		if (node_of(client, call) == NO_NODE ||
		    client->nodes[node_of(client, call)] == node)
			call->retry_at_ms = 0;
	/* Sent by the timer: the link is still inside its own handler. */
	loop_timer_clear(client->options.loop, &client->timer);
	(void)!loop_timer_set(client->options.loop, &client->timer, 0);
}

static void link_down(void *user, const char *why)
{
	struct node *node = user;
	struct redis_client *client = node->client;
	struct redis_call *call;

	report_away(node, why);
	client->refresh_wanted |= client->slots != NULL;
	while ((call = list_cut(&node->sent)) != NULL) {
		call->ask_node = NO_NODE;
		park(client, call, LOOK_MS);
	}
}

/* ---- the map of slots ---- */

static void slots_range(void *user, const struct redis_slots_range *range)
{
	struct redis_client *client = user;
	uint32_t node = node_get(client, &range->master);

	if (node != NO_NODE)
		client->nodes[node]->mapped = true;
	for (uint32_t slot = range->first; slot <= range->last; slot++)
		client->slots[slot] = node;
}

static void refreshed(struct redis_call *call, int error, struct span reply)
{
	struct redis_client *client = call->user;
	struct redis_host asked = *redis_link_host(client->nodes[call->node]->link);

	client->refreshing = false;
	if (error < 0)
		return;
	for (uint32_t i = 0; i < client->node_count; i++)
		if (client->nodes[i])
			client->nodes[i]->mapped = false;
	client->map_is_new = redis_slots_walk(reply, &asked, slots_range, client);
	client->refresh_wanted = !client->map_is_new;
}

static void node_free(struct node *node)
{
	redis_link_free(node->link);
	mem_free(node);
}

static void node_remove(struct redis_client *client, uint32_t at)
{
	struct node *node = client->nodes[at];

	log_info("redis node removed: it left the cluster",
	         log_str("host", redis_link_host(node->link)->name),
	         log_u64("port", redis_link_host(node->link)->port));
	for (struct redis_call *call = client->parked.head; call; call = call->next)
		if (call->ask_node == at)
			call->ask_node = NO_NODE;
	for (uint32_t slot = 0; slot < REDIS_SLOTS; slot++)
		if (client->slots[slot] == at)
			client->slots[slot] = NO_NODE;
	node_free(node);
	client->nodes[at] = NULL;
}

/* After a new map. A node that is up but has no slots, as a replica, can still be asked for
 * the map. */
static void nodes_prune(struct redis_client *client)
{
	client->map_is_new = false;
	for (uint32_t i = 0; i < client->node_count; i++) {
		const struct node *node = client->nodes[i];
		if (node && !node->named && !node->mapped && !redis_link_is_up(node->link) &&
		    !node->sent.head)
			node_remove(client, i);
	}
}

/* Asks another node each time: one that is cut off from the cluster has an old map. */
static void refresh_slots(struct redis_client *client)
{
	uint64_t now = now_ms(client);

	if (!client->slots || !client->refresh_wanted || client->refreshing ||
	    now < client->refresh_at_ms)
		return;
	uint32_t at = client->refresh_node++ % client->node_count;
	for (uint32_t i = 0; i < client->node_count; i++) {
		if (client->nodes[at] && redis_link_is_up(client->nodes[at]->link))
			break;
		if (client->nodes[at])
			redis_link_start(client->nodes[at]->link);
		at = (at + 1) % client->node_count;
	}
	struct redis_call *call = &client->refresh;
	call->slot = REDIS_ANY_SLOT;
	call->done = refreshed;
	call->user = client;
	call->deadline_ms = now + REFRESH_TIMEOUT_MS;
	call->ask_node = NO_NODE;
	call->node = at;
	if (!client->nodes[at] || !redis_link_is_up(client->nodes[at]->link))
		return;
	client->refresh_at_ms = now + REFRESH_MS;
	client->refreshing = true;
	client->calls++;
	write_call(call, client->nodes[at]);
	list_add(&client->nodes[at]->sent, call);
	redis_link_flush(client->nodes[at]->link);
}

/* Closes a connection without an answer in time: its calls are sent elsewhere. */
static void end_late_calls(struct redis_client *client)
{
	uint64_t now = now_ms(client);

	for (uint32_t i = 0; i < client->node_count; i++) {
		struct node *node = client->nodes[i];
		for (struct redis_call *call = node ? node->sent.head : NULL; call;
		     call = call->next) {
			if (now < call->deadline_ms)
				continue;
			redis_link_reset(node->link, "no answer in time");
			break;
		}
	}
}

static void timer_due(struct loop_timer *timer)
{
	struct redis_client *client = container_of(timer, struct redis_client, timer);

	if (client->map_is_new)
		nodes_prune(client);
	refresh_slots(client);
	end_late_calls(client);
	retry_parked(client);
	if (client->calls > 0 || client->refresh_wanted || client->map_is_new)
		timer_begin(client);
}

/* ---- beginning and end ---- */

int redis_client_new(const struct redis_client_options *options, struct redis_client **ret_client)
{
	struct redis_client *client = mem_zalloc(1, sizeof(*client));
	int r = 0;

	if (!client)
		return -ENOMEM;
	client->options = *options;
	client->login = options->login;
	client->timer.due = timer_due;
	list_init(&client->parked);
	for (uint32_t i = 0; i < client->login->host_count && r == 0; i++)
		r = node_get(client, &client->login->hosts[i]) == NO_NODE ? -ENOMEM : 0;
	for (uint32_t i = 0; i < client->node_count; i++)
		client->nodes[i]->named = true;
	if (r == 0 && client->login->cluster) {
		client->slots = mem_alloc(REDIS_SLOTS * sizeof(*client->slots));
		for (uint32_t i = 0; client->slots && i < REDIS_SLOTS; i++)
			client->slots[i] = NO_NODE;
		client->refresh.count = 2;
		resp_request_add(&client->refresh.arguments, SPAN("CLUSTER"));
		resp_request_add(&client->refresh.arguments, SPAN("SLOTS"));
		client->refresh_wanted = true;
		r = client->slots ? client->refresh.arguments.failed : -ENOMEM;
	}
	if (r < 0) {
		redis_client_free(client);
		return r;
	}
	timer_begin(client);
	*ret_client = client;
	return 0;
}

static void list_fail(struct redis_client *client, struct call_list *list)
{
	struct redis_call *call;

	while ((call = list_cut(list)) != NULL)
		finish(client, call, ERR_CLOSING, SPAN_EMPTY);
}

struct redis_client *redis_client_free(struct redis_client *client)
{
	if (!client)
		return NULL;
	loop_timer_clear(client->options.loop, &client->timer);
	list_fail(client, &client->parked);
	for (uint32_t i = 0; i < client->node_count; i++) {
		if (!client->nodes[i])
			continue;
		list_fail(client, &client->nodes[i]->sent);
		node_free(client->nodes[i]);
	}
	redis_call_free(&client->refresh);
	mem_free(client->slots);
	return mem_free(client);
}
