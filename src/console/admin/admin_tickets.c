/*
 * admin_tickets: one ticket at a time: as JSON, listed, shown, released, dropped. See
 * admin_private.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"
#include "codec/json_write.h"
#include "console/admin/admin_private.h"
#include "gate/metadata.h"
#include "gate/ticket.h"

bool admin_parse_ticket(const struct admin_call *call, uint64_t *ret_ticket)
{
	if (ticket_parse(call->part, ret_ticket))
		return true;
	admin_respond_problem(call->request, 400, "not a ticket: expected 11 letters and digits");
	return false;
}

/* The number of the lane that delivers to a sink; -ENOENT: none does. */
static int find_lane(const struct admin *admin, uint32_t sink, struct lane_view *ret_view)
{
	struct deliver *deliver = admin->options.console->deliver;
	for (uint32_t i = 0; i < deliver_lane_count(deliver); i++) {
		deliver_view(deliver, i, ret_view);
		if (ret_view->sink == sink)
			return (int)i;
	}
	return -ENOENT;
}

/* ---- as JSON ---- */

static const char *mark_name(enum store_mark mark)
{
	static const char *const names[] = {
		[STORE_MARK_NONE] = "none",         [STORE_MARK_STARTED] = "started",
		[STORE_MARK_FAILED] = "failed",     [STORE_MARK_UNKNOWN] = "unknown",
		[STORE_MARK_DEAD] = "dead",         [STORE_MARK_PARKED] = "parked",
		[STORE_MARK_RELEASED] = "released",
	};
	return (size_t)mark < ARRAY_LEN(names) ? names[mark] : "other";
}

/* Leaves the object open. */
static void put_item(const struct admin *admin, struct buf *out, const struct store_item *item,
                     const struct store_parts *parts)
{
	enum store_state state = (enum store_state)item->state;
	struct metadata metadata = { 0 };
	struct lane_view view;
	json_object_begin(out, NULL);
	ticket_add(out, "ticket", item->ticket);
	ticket_add(out, "event", item->event);
	json_add_string(out, "state", admin_state_name(state));
	if (item->sink == STORE_SINK_CALLER)
		snprintf(view.name, sizeof(view.name), "caller");
	else if (find_lane(admin, item->sink, &view) < 0)
		snprintf(view.name, sizeof(view.name), "unknown-%08" PRIx32, item->sink);
	json_add_string(out, "sink", view.name);
	json_add_text(out, "source", parts->source);
	json_add_time(out, "received", ticket_time_ms(item->ticket));
	if (metadata_read(parts->metadata, &metadata) < 0)
		metadata = (struct metadata){ 0 };
	for (int field = 0; field < METADATA_FIELD_COUNT; field++) {
		bool replay = field == METADATA_REPLAY_OF;
		const char *name = metadata_field_name((enum metadata_field)field);
		if (field != METADATA_TRACEPARENT && field != METADATA_TRACESTATE &&
		    field != METADATA_CONTENT_TYPE)
			json_add_text_if(out, replay ? "replay_of" : name, metadata.texts[field]);
	}
	if (state == STORE_STATE_CLOSED)
		return;
	json_add_u64(out, "attempt", item->attempt);
	if (item->due_ms > 0)
		json_add_time(out, store_state_pending(state) ? "due" : "since", item->due_ms);
	if (item->last == STORE_MARK_NONE)
		return;
	json_add_string(out, "last", mark_name((enum store_mark)item->last));
	if (item->status > 0)
		json_add_u64(out, "status", item->status);
}

/* ---- list: GET /v1/tickets ----
 *
 * The store scans a bounded piece at a time. An answer ends when it has as many tickets
 * as the limit says, at the end of the store, or after STEPS_MAX pieces: then it may
 * have few tickets, or none, and a cursor from which to continue.
 */

#define LIMIT_STANDARD 100u
#define LIMIT_MAX 1000u
#define LIST_STEPS_MAX 512u
#define PIECE_BYTES (256u << 10)
#define ANSWER_BYTES_MAX (16u << 20)
#define SEAL_PURPOSE UINT64_C(0x726f73727563) /* the key has other uses too */

struct listing {
	struct store_scan scan;
	struct admin *admin;
	struct http_request *request;
	struct admin_filter filter;
	struct buf out;
	uint64_t limit;
	uint32_t listed, steps;
};

/* A cursor is sent as 48 hexadecimal digits: its words and a seal. The store trusts its
 * cursors, so a client cannot make one; the seal covers the kind of scan too. */
static uint64_t cursor_seal(const struct listing *it)
{
	const uint64_t parts[] = { SEAL_PURPOSE, it->scan.cursor.word[0], it->scan.cursor.word[1],
		                   it->scan.all };
	uint64_t digest[2];
	hash_keyed128(it->admin->options.key, parts, sizeof(parts), digest);
	return digest[0];
}

static bool parse_cursor(struct listing *it, const struct filter_text *text)
{
	uint64_t words[3] = { 0 };
	if (text->len != 48)
		return false;
	for (uint32_t i = 0; i < 48; i++) {
		int digit = hex_value(text->bytes[i]);
		if (digit < 0)
			return false;
		words[i / 16] = words[i / 16] << 4 | (uint64_t)digit;
	}
	it->scan.cursor = (struct store_cursor){ { words[0], words[1] } };
	return cursor_seal(it) == words[2];
}

static void end_list(struct listing *it)
{
	const uint64_t *word = it->scan.cursor.word;
	char next[3 * 16 + 1];
	snprintf(next, sizeof(next), "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, word[0], word[1],
	         cursor_seal(it));
	json_array_end(&it->out);
	json_add_string(&it->out, "next", it->scan.end ? NULL : next);
	json_object_end(&it->out);
	admin_respond(it->request, &it->out);
}

static void list_scanned(struct store_op *op)
{
	struct listing *it = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	while (op->error == 0 && store_item_next(buf_span(&it->scan.items), &at, &item, &parts)) {
		if (!admin_filter_matches(&it->filter, &item, &parts))
			continue;
		it->listed++;
		put_item(it->admin, &it->out, &item, &parts);
		json_object_end(&it->out);
	}
	if (op->error == 0 && !it->scan.end && it->listed < it->limit &&
	    ++it->steps < LIST_STEPS_MAX && !it->out.failed) {
		it->scan.max_items = (uint32_t)it->limit - it->listed;
		store_submit(it->admin->options.port, op);
		return;
	}
	if (op->error == 0)
		end_list(it);
	else
		admin_respond_error(it->request, op->error);
	buf_free(&it->out);
	buf_free(&it->scan.items);
	mem_free(it);
}

static int parse_list(struct listing *it, struct span query, struct error_text *ret_text)
{
	struct filter_text cursor;
	int r = admin_filter_parse(it->admin->options.console, query, it->admin->now_ms,
	                           &it->filter, ret_text);
	if (r == 0)
		r = admin_param_number(query, "limit", LIMIT_MAX, &it->limit, ret_text);
	if (r == 0 && it->limit == 0)
		r = error_fill(ret_text, ERR_INVALID, "limit: expected 1 to %u", LIMIT_MAX);
	if (r != 0)
		return r;
	if (it->filter.states == 0)
		it->filter.states = FILTER_OPEN_STATES;
	admin_filter_scan(&it->filter, &it->scan);
	admin_param(query, "cursor", &cursor, ret_text);
	if (cursor.given && !parse_cursor(it, &cursor))
		return error_fill(ret_text, ERR_INVALID,
		                  "cursor: expected the `next` of an answer to the same query");
	return 0;
}

void admin_list_tickets(struct admin *admin, const struct admin_call *call)
{
	struct error_text text = { "" };
	struct listing *it = admin_alloc(call->request, sizeof(*it));
	if (!it)
		return;
	it->admin = admin;
	it->request = call->request;
	it->limit = LIMIT_STANDARD;
	it->out.cap = ANSWER_BYTES_MAX;
	if (parse_list(it, call->request->head.query, &text) < 0) {
		admin_respond_problem(call->request, 400, text.text);
		mem_free(it);
		return;
	}
	it->scan.op = (struct store_op){ .kind = STORE_SCAN, .done = list_scanned, .user = it };
	it->scan.max_items = (uint32_t)it->limit;
	it->scan.max_bytes = PIECE_BYTES;
	json_object_begin(&it->out, NULL);
	json_array_begin(&it->out, "tickets");
	store_submit(admin->options.port, &it->scan.op);
}

/* ---- show: GET /v1/tickets/{ticket} ----
 *
 * The ticket is read first, which gives its event, then the event's legs. If none is
 * open, the journal is scanned for it, a piece at a time and at most SHOW_STEPS_MAX
 * pieces; attempts of closed tickets are not kept.
 */

#define SHOW_BYTES_MAX (64u << 20)
#define SHOW_STEPS_MAX 4096u

struct show {
	struct store_read read;
	struct store_scan scan;
	uint32_t steps;
	struct admin *admin;
	struct http_request *request;
	struct buf out;
	uint64_t asked, event;
	uint32_t leg, listed;
	bool payload;
};

static void put_history(struct buf *out, struct span items, size_t at)
{
	struct store_history note;
	struct span text;
	json_array_begin(out, "history");
	while (store_history_next(items, &at, &note, &text)) {
		json_object_begin(out, NULL);
		json_add_time(out, "time", note.at_ms);
		json_add_u64(out, "attempt", note.attempt);
		json_add_string(out, "mark", mark_name((enum store_mark)note.mark));
		if (note.status > 0)
			json_add_u64(out, "status", note.status);
		if (note.due_ms > 0)
			json_add_time(out, "next", note.due_ms);
		if (text.len > 0)
			json_add_text(out, "text", text);
		json_object_end(out);
	}
	json_array_end(out);
}

static void end_show(struct show *it, int error)
{
	if (error != 0) {
		admin_respond_error(it->request, error);
	} else if (it->listed == 0) {
		admin_respond_problem(
			it->request, 404,
			"no such ticket, or it was closed too long ago and its record was removed; GET /v1/why?ticket=… may have its trace");
	} else {
		json_array_end(&it->out);
		json_object_end(&it->out);
		admin_respond(it->request, &it->out);
	}
	buf_free(&it->out);
	buf_free(&it->read.items);
	buf_free(&it->scan.items);
	mem_free(it);
}

/* `history`: where it begins in `items`. */
static void put_leg(struct show *it, const struct store_item *item, const struct store_parts *parts,
                    struct span items, size_t history)
{
	if (it->listed++ == 0) {
		json_object_begin(&it->out, NULL);
		ticket_add(&it->out, "event", item->event);
		if (it->payload && item->flags & STORE_EVENT_JSON)
			json_add_raw(&it->out, "payload", parts->payload);
		else if (it->payload)
			json_add_base64(&it->out, "payload_base64", parts->payload);
		json_array_begin(&it->out, "legs");
	}
	put_item(it->admin, &it->out, item, parts);
	put_history(&it->out, items, history);
	json_object_end(&it->out);
}

static void show_scanned(struct store_op *op)
{
	struct show *it = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	while (op->error == 0 && store_item_next(buf_span(&it->scan.items), &at, &item, &parts))
		if (item.event == it->asked || item.ticket == it->asked)
			put_leg(it, &item, &parts, SPAN_EMPTY, 0);
	if (op->error != 0 || it->scan.end || it->listed > 0 || ++it->steps == SHOW_STEPS_MAX ||
	    it->out.failed)
		end_show(it, op->error);
	else
		store_submit(it->admin->options.port, op);
}

static void scan_closed(struct show *it)
{
	it->scan = (struct store_scan){
		.op = { .kind = STORE_SCAN, .done = show_scanned, .user = it },
		.states = 1u << STORE_STATE_CLOSED,
		.from = it->asked,
		.to = it->asked + STORE_LEGS_MAX - 1,
		.max_items = STORE_LEGS_MAX,
		.max_bytes = SHOW_BYTES_MAX,
		.all = true,
		.with_payload = it->payload,
	};
	store_submit(it->admin->options.port, &it->scan.op);
}

static void leg_read(struct store_op *op)
{
	struct show *it = op->user;
	struct span items = buf_span(&it->read.items);
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	bool more = true;
	if (op->error == 0 && store_item_next(items, &at, &item, &parts)) {
		more = item.event == it->event; /* else it is of another: there are no more */
		if (more)
			put_leg(it, &item, &parts, items, at);
	}
	if (op->error != 0 && op->error != -ENOENT) {
		end_show(it, op->error);
	} else if (more && ++it->leg < STORE_LEGS_MAX && !it->out.failed) {
		it->read.ticket = it->event + it->leg;
		store_submit(it->admin->options.port, op);
	} else if (it->listed == 0) {
		scan_closed(it);
	} else {
		end_show(it, 0);
	}
}

static void event_known(struct store_op *op)
{
	struct show *it = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	it->event = it->asked;
	if (op->error == 0 && store_item_next(buf_span(&it->read.items), &at, &item, &parts))
		it->event = item.event;
	it->read.op.done = leg_read;
	it->read.history = true;
	it->read.ticket = it->event;
	store_submit(it->admin->options.port, op);
}

void admin_show_ticket(struct admin *admin, const struct admin_call *call)
{
	struct error_text text = { "" };
	uint64_t ticket, payload = 0;
	if (!admin_parse_ticket(call, &ticket))
		return;
	if (admin_param_number(call->request->head.query, "payload", 1, &payload, &text) < 0) {
		admin_respond_problem(call->request, 400, text.text);
		return;
	}
	struct show *it = admin_alloc(call->request, sizeof(*it));
	if (!it)
		return;
	*it = (struct show){
		.read = { .op = { .kind = STORE_READ, .done = event_known, .user = it },
		          .ticket = ticket },
		.admin = admin,
		.request = call->request,
		.out = { .cap = SHOW_BYTES_MAX },
		.asked = ticket,
		.payload = payload,
	};
	store_submit(admin->options.port, &it->read.op);
}

/* ---- release or drop, wherever the ticket is ----
 *
 * A due ticket is with the store or with its lane, and may move from one to the other
 * meanwhile. So the one that had it last is asked first, then the other; if neither has
 * it, an attempt is as good as under way. A ticket that waits for a person is with the
 * store; if it is not there any more, somebody else has decided.
 */

#define DUE (1u << STORE_STATE_DUE)

static void ask_store(struct admin_act *act);

static void command_done(struct admin_command *command)
{
	struct admin_act *act = container_of(command, struct admin_act, command);
	int error = command->command.error;
	act->lane_asked = true;
	if (error == -ENOENT && !act->store_asked)
		ask_store(act);
	else
		act->done(act, error == -ENOENT ? ERR_FENCED : error);
}

/* False: it has no lane. */
static bool ask_lane(struct admin_act *act)
{
	struct lane_view view;
	int lane = act->lane_asked ? -ENOENT : find_lane(act->admin, act->sink, &view);
	if (lane < 0)
		return false;
	act->command = (struct admin_command){
		.command = { .kind = act->drop ? DELIVER_DROP : DELIVER_RETRY_NOW,
		             .ticket = act->ticket },
		.done = command_done,
	};
	admin_command_post(act->admin, (uint32_t)lane, &act->command);
	return true;
}

static void release_done(struct store_op *op)
{
	struct admin_act *act = op->user;
	act->store_asked = true;
	if (op->error != ERR_FENCED || act->states != DUE || !ask_lane(act))
		act->done(act, op->error);
}

static void ask_store(struct admin_act *act)
{
	act->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = release_done, .user = act },
		.ticket = act->ticket,
		.states = act->states,
		.drop = act->drop,
		.whole_event = act->whole_event,
	};
	store_submit(act->admin->options.port, &act->release.op);
}

void admin_act_begin(struct admin_act *act, enum store_state state)
{
	bool due = state == STORE_STATE_DUE || state == STORE_STATE_LEASED;
	act->states = due ? DUE : STORE_STATES_ASIDE;
	act->store_asked = act->lane_asked = false;
	if (state != STORE_STATE_LEASED || !ask_lane(act))
		ask_store(act);
}

/*
 * POST /v1/tickets/{ticket}/release and …/drop. The ticket is read first, since its state
 * says what is to be done:
 *
 *   held          one decision for all legs of the event: all of them
 *   parked, dead  this leg alone
 *   due, leased   this leg alone: attempted now, or dropped
 *   not open      it may be the event's ticket, and other legs wait: all of them
 */
struct deed {
	struct admin_act act;
	struct store_read read;
	struct http_request *request;
};

static void end_deed(struct admin_act *act, int error)
{
	struct deed *deed = container_of(act, struct deed, act);
	struct buf out = { .cap = 256 };
	if (error != 0) {
		admin_respond_error(deed->request, error);
	} else {
		json_object_begin(&out, NULL);
		ticket_add(&out, "ticket", act->ticket);
		json_add_text(&out, "state", act->drop ? SPAN("dropped") : SPAN("released"));
		json_object_end(&out);
		admin_respond(deed->request, &out);
	}
	buf_free(&deed->read.items);
	mem_free(deed);
}

static void act_on(struct store_op *op)
{
	struct deed *deed = op->user;
	struct store_item item = { .state = STORE_STATE_CLOSED };
	struct store_parts parts;
	size_t at = 0;
	if (op->error != 0 && op->error != -ENOENT) {
		end_deed(&deed->act, op->error);
		return;
	}
	bool open = op->error == 0 &&
	            store_item_next(buf_span(&deed->read.items), &at, &item, &parts);
	deed->act.whole_event = !open || item.state == STORE_STATE_HELD;
	deed->act.sink = item.sink;
	admin_act_begin(&deed->act, (enum store_state)item.state);
}

void admin_act_on_ticket(struct admin *admin, const struct admin_call *call)
{
	uint64_t ticket;
	if (!admin_parse_ticket(call, &ticket))
		return;
	struct deed *deed = admin_alloc(call->request, sizeof(*deed));
	if (!deed)
		return;
	*deed = (struct deed){
		.act = { .admin = admin, .ticket = ticket, .drop = call->what, .done = end_deed },
		.read = { .op = { .kind = STORE_READ, .done = act_on, .user = deed },
		          .ticket = ticket },
		.request = call->request,
	};
	store_submit(admin->options.port, &deed->read.op);
}
