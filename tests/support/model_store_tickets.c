/* model_store_tickets: see model_store_tickets.h. */
#include "support/model_store_tickets.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* What the legs of one event share. */
struct ticket_body {
	uint32_t refs;
	uint16_t flags;
	uint32_t source_len, metadata_len, payload_len;
	struct note *started; /* of an event that is leased from the beginning, until it is open */
	char bytes[];         /* source, metadata, payload */
};

struct note {
	struct note *older;
	struct store_history head;
	char text[];
};

struct slot {
	uint64_t ticket;
	uint64_t event;
	uint64_t order;
	uint64_t due_ms;       /* parked, dead: since when */
	uint64_t lease_end_ms; /* by the boot clock; 0: never */
	struct ticket_body *body;
	struct note *notes; /* the newest */
	uint32_t sink;
	uint32_t attempt; /* the last that was given */
	uint32_t used;    /* the last that would be remembered after a crash */
	enum store_state state;
};

struct model_tickets {
	struct slot *slots; /* ascending; a closed one has no body, and the first is open */
	size_t count, room;
	size_t skipped;         /* slots of the allocation before the first */
	size_t open;            /* of count */
	size_t callers;         /* of those, of STORE_SINK_CALLER */
	size_t due_from;        /* nothing is due before this one */
	uint64_t lease_ends_ms; /* none of the leases before; 0: never */
	uint64_t now_ms, boot_ms;
	uint64_t bytes;
	uint64_t counts[STORE_STATE_CLOSED + 1];
};

int model_tickets_new(struct model_tickets **ret_tickets)
{
	struct model_tickets *tickets = mem_zalloc(1, sizeof(*tickets));

	if (!tickets)
		return -ENOMEM;
	*ret_tickets = tickets;
	return 0;
}

void model_tickets_set_time(struct model_tickets *tickets, uint64_t now_ms, uint64_t boot_ms)
{
	tickets->now_ms = now_ms;
	tickets->boot_ms = boot_ms;
}

/* ---- slots ---- */

static size_t slot_index(const struct model_tickets *tickets, uint64_t ticket)
{
	size_t low = 0, high = tickets->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (tickets->slots[middle].ticket < ticket)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct slot *slot_find(struct model_tickets *tickets, uint64_t ticket)
{
	size_t at = slot_index(tickets, ticket);

	if (at == tickets->count || tickets->slots[at].ticket != ticket)
		return NULL;
	return tickets->slots[at].body ? &tickets->slots[at] : NULL;
}

static void slot_set_state(struct model_tickets *tickets, struct slot *slot, enum store_state state)
{
	tickets->counts[slot->state]--;
	tickets->counts[state]++;
	slot->state = state;
	if (state == STORE_STATE_DUE && (size_t)(slot - tickets->slots) < tickets->due_from)
		tickets->due_from = (size_t)(slot - tickets->slots);
}

static void body_drop(struct model_tickets *tickets, struct ticket_body *body)
{
	if (--body->refs > 0)
		return;
	tickets->bytes -= sizeof(*body) + body->source_len + body->metadata_len + body->payload_len;
	mem_free(body);
}

static void notes_free(struct model_tickets *tickets, struct note *note)
{
	while (note) {
		struct note *older = note->older;
		tickets->bytes -= sizeof(*note) + note->head.text_len;
		mem_free(note);
		note = older;
	}
}

static void slot_close(struct model_tickets *tickets, struct slot *slot)
{
	tickets->counts[slot->state]--;
	notes_free(tickets, slot->notes);
	body_drop(tickets, slot->body);
	slot->body = NULL;
	tickets->callers -= slot->sink == STORE_SINK_CALLER;
	tickets->open--;
	while (tickets->count > 0 && !tickets->slots[0].body) {
		tickets->slots++;
		tickets->skipped++;
		tickets->count--;
		tickets->due_from -= tickets->due_from > 0;
	}
}

struct model_tickets *model_tickets_free(struct model_tickets *tickets)
{
	if (!tickets)
		return NULL;
	while (tickets->count > 0)
		slot_close(tickets, &tickets->slots[0]);
	mem_free(tickets->slots - tickets->skipped);
	return mem_free(tickets);
}

/* ---- opening ---- */

static int slots_reserve(struct model_tickets *tickets, uint32_t more)
{
	size_t room = tickets->room ? tickets->room : 64;
	struct slot *memory = tickets->slots - tickets->skipped;

	if (tickets->skipped + tickets->count + more <= tickets->room)
		return 0;
	if (tickets->skipped > 0)
		memmove(memory, tickets->slots, tickets->count * sizeof(struct slot));
	tickets->slots = memory;
	tickets->skipped = 0;
	while (room < 2 * (tickets->count + more))
		room *= 2;
	if (room == tickets->room)
		return 0;
	memory = mem_realloc(memory, room * sizeof(struct slot));
	if (!memory)
		return -ENOMEM;
	tickets->slots = memory;
	tickets->room = room;
	return 0;
}

int model_tickets_prepare(struct model_tickets *tickets, const struct store_admit *admit,
                          struct ticket_body **ret_body)
{
	size_t len = admit->source.len + admit->metadata.len + admit->payload.len;

	if (slots_reserve(tickets, store_leg_count(admit)) < 0)
		return -ENOMEM;
	struct ticket_body *body = mem_alloc(sizeof(*body) + len);
	if (!body)
		return -ENOMEM;
	body->started = admit->lease_ms ? mem_zalloc(1, sizeof(struct note)) : NULL;
	if (admit->lease_ms && !body->started) {
		mem_free(body);
		return -ENOMEM;
	}
	*ret_body = body;
	return 0;
}

struct ticket_body *model_tickets_unprepare(struct ticket_body *body)
{
	if (body)
		mem_free(body->started);
	return mem_free(body);
}

static char *put(char *at, struct span span)
{
	if (span.len)
		memcpy(at, span.ptr, span.len);
	return at + span.len;
}

static uint64_t lease_end(struct model_tickets *tickets, uint32_t lease_ms)
{
	uint64_t end_ms = lease_ms ? tickets->boot_ms + lease_ms : 0;

	if (end_ms && (!tickets->lease_ends_ms || end_ms < tickets->lease_ends_ms))
		tickets->lease_ends_ms = end_ms;
	return end_ms;
}

/* Leased, and its attempt is known to have started. */
static void slot_begin(struct model_tickets *tickets, struct slot *slot, struct note *started,
                       uint32_t lease_ms)
{
	slot->attempt = slot->used = store_attempt_next(slot->attempt);
	*started = (struct note){ .older = slot->notes,
		                  .head = { .mark = STORE_MARK_STARTED,
		                            .attempt = slot->attempt,
		                            .at_ms = tickets->now_ms } };
	slot->notes = started;
	tickets->bytes += sizeof(*started);
	slot->lease_end_ms = lease_end(tickets, lease_ms);
	slot_set_state(tickets, slot, STORE_STATE_LEASED);
}

void model_tickets_open(struct model_tickets *tickets, const struct store_admit *admit,
                        uint64_t event, struct ticket_body *body, bool held)
{
	static const struct store_leg only = { 0 };

	struct note *started = body->started;

	*body = (struct ticket_body){ .refs = store_leg_count(admit),
		                      .flags = admit->flags,
		                      .source_len = (uint32_t)admit->source.len,
		                      .metadata_len = (uint32_t)admit->metadata.len,
		                      .payload_len = (uint32_t)admit->payload.len };
	put(put(put(body->bytes, admit->source), admit->metadata), admit->payload);
	tickets->bytes += sizeof(*body) + body->source_len + body->metadata_len + body->payload_len;
	CHECK(tickets->skipped + tickets->count + body->refs <= tickets->room);
	CHECK(tickets->count == 0 || tickets->slots[tickets->count - 1].ticket < event);
	for (uint32_t i = 0; i < body->refs; i++) {
		const struct store_leg *leg = admit->leg_count ? &admit->legs[i] : &only;
		struct slot *slot = &tickets->slots[tickets->count++];
		*slot = (struct slot){ .ticket = event + i,
			               .event = event,
			               .order = leg->order,
			               .sink = leg->sink,
			               .body = body,
			               .state = held ? STORE_STATE_HELD : STORE_STATE_DUE };
		tickets->counts[slot->state]++;
		tickets->open++;
		tickets->callers += slot->sink == STORE_SINK_CALLER;
	}
	if (started && held)
		mem_free(started);
	else if (started)
		slot_begin(tickets, &tickets->slots[tickets->count - 1], started, admit->lease_ms);
}

/* ---- questions ---- */

struct waits_legs model_tickets_legs(struct model_tickets *tickets, uint64_t event)
{
	struct waits_legs legs = { 0 };

	for (size_t at = slot_index(tickets, event);
	     at < tickets->count && tickets->slots[at].event == event; at++) {
		enum store_state state = tickets->slots[at].body ? tickets->slots[at].state
		                                                 : STORE_STATE_CLOSED;
		legs.pending |= store_state_pending(state);
		legs.parked |= state == STORE_STATE_PARKED;
		legs.dead |= state == STORE_STATE_DEAD;
	}
	return legs;
}

bool model_tickets_held(struct model_tickets *tickets, uint64_t ticket)
{
	const struct slot *slot = slot_find(tickets, ticket);

	return slot && slot->state == STORE_STATE_HELD;
}

uint64_t model_tickets_count(const struct model_tickets *tickets, enum store_state state)
{
	return tickets->counts[state];
}

uint64_t model_tickets_callers(const struct model_tickets *tickets)
{
	return tickets->callers;
}

uint64_t model_tickets_open_count(const struct model_tickets *tickets)
{
	return tickets->open;
}

uint64_t model_tickets_bytes(const struct model_tickets *tickets)
{
	return tickets->bytes + tickets->room * sizeof(struct slot);
}

/* ---- notes and outcomes ---- */

static int slot_note(struct model_tickets *tickets, struct slot *slot, struct store_history head,
                     struct span text)
{
	text = store_text_cut(text);
	struct note *note = mem_alloc(sizeof(*note) + text.len);
	if (!note)
		return ERR_FULL;
	head.at_ms = tickets->now_ms;
	head.text_len = (uint32_t)text.len;
	note->head = head;
	note->older = slot->notes;
	put(note->text, text);
	slot->notes = note;
	tickets->bytes += sizeof(*note) + text.len;
	return 0;
}

static struct slot *slot_leased(struct model_tickets *tickets, uint64_t ticket, uint32_t attempt)
{
	struct slot *slot = slot_find(tickets, ticket);

	return slot && slot->state == STORE_STATE_LEASED && slot->attempt == attempt ? slot : NULL;
}

int model_tickets_note(struct model_tickets *tickets, const struct store_note *note)
{
	struct slot *slot = slot_leased(tickets, note->ticket, note->attempt);
	bool started = note->mark == STORE_MARK_STARTED;

	if (!store_mark_valid(note->mark))
		return ERR_INVALID;
	if (!slot)
		return ERR_FENCED;
	int r = slot_note(tickets, slot,
	                  (struct store_history){ .mark = (uint16_t)note->mark,
	                                          .status = note->status,
	                                          .attempt = note->attempt,
	                                          .due_ms = started ? 0 : note->due_ms },
	                  note->text);
	if (r < 0)
		return r;
	slot->used = note->attempt;
	if (started)
		return 0;
	slot->attempt = store_attempt_next(slot->attempt);
	slot->due_ms = note->due_ms;
	return 0;
}

static int settle_aside(struct model_tickets *tickets, struct slot *slot,
                        const struct store_settle *settle)
{
	bool dead = settle->outcome == OUTCOME_DEAD;

	int r = slot_note(tickets, slot,
	                  (struct store_history){ .mark = dead ? STORE_MARK_DEAD
	                                                       : STORE_MARK_PARKED,
	                                          .status = settle->status,
	                                          .attempt = settle->attempt },
	                  settle->text);
	if (r < 0)
		return r;
	slot->due_ms = tickets->now_ms;
	slot_set_state(tickets, slot, dead ? STORE_STATE_DEAD : STORE_STATE_PARKED);
	return 0;
}

int model_tickets_settle(struct model_tickets *tickets, const struct store_settle *settle,
                         struct waits *waits)
{
	struct slot *slot = slot_leased(tickets, settle->ticket, settle->attempt);

	if (!store_outcome_valid(settle->outcome))
		return ERR_INVALID;
	if (!slot)
		return ERR_FENCED;
	uint64_t event = slot->event;
	bool forget = settle->outcome == OUTCOME_DEAD && settle->forget;
	slot->used = settle->attempt;
	if (settle->outcome == OUTCOME_RELEASED) {
		slot->due_ms = settle->due_ms;
		slot_set_state(tickets, slot, STORE_STATE_DUE);
		return 0;
	}
	if (settle->outcome == OUTCOME_DONE || forget) {
		slot_close(tickets, slot);
	} else {
		int r = settle_aside(tickets, slot, settle);
		if (r < 0)
			return r;
	}
	if (forget)
		waits_note_dropped(waits, event);
	waits_tell(waits, event);
	return 0;
}

static bool is_meant(const struct slot *slot, const struct store_release *release)
{
	return slot && store_release_states(release) & 1u << slot->state;
}

static int slot_release(struct model_tickets *tickets, struct slot *slot, bool drop,
                        struct waits *waits)
{
	if (drop) {
		uint64_t event = slot->event;
		slot_close(tickets, slot);
		waits_note_dropped(waits, event);
		waits_tell(waits, event);
		return 0;
	}
	if (slot->state == STORE_STATE_PARKED || slot->state == STORE_STATE_DEAD) {
		int r = slot_note(tickets, slot,
		                  (struct store_history){ .mark = STORE_MARK_RELEASED,
		                                          .attempt = slot->attempt },
		                  SPAN_EMPTY);
		if (r < 0)
			return r;
	}
	slot->due_ms = 0;
	slot->used = slot->attempt; /* it is written down with the release */
	slot_set_state(tickets, slot, STORE_STATE_DUE);
	return 0;
}

int model_tickets_release(struct model_tickets *tickets, const struct store_release *release,
                          struct waits *waits)
{
	struct slot *slot = slot_find(tickets, release->ticket);

	if (!release->whole_event)
		return is_meant(slot, release) ? slot_release(tickets, slot, release->drop, waits)
		                               : ERR_FENCED;
	/* The ticket itself may be closed: it is then the event's, or one of its legs. */
	uint64_t event = slot ? slot->event : release->ticket;
	int r = ERR_FENCED;
	for (uint64_t leg = event; leg < event + STORE_LEGS_MAX; leg++) {
		slot = slot_find(tickets, leg);
		if (is_meant(slot, release) && slot->event == event)
			r = slot_release(tickets, slot, release->drop, waits);
	}
	return r;
}

/* ---- leases ---- */

int model_tickets_renew(struct model_tickets *tickets, const struct store_renew *renew)
{
	struct slot *slot = slot_leased(tickets, renew->ticket, renew->attempt);
	uint32_t lease_ms;

	if (!slot || !store_renew_lease(renew, tickets->now_ms, &lease_ms))
		return ERR_FENCED;
	slot->lease_end_ms = lease_end(tickets, lease_ms);
	return 0;
}

void model_tickets_end_leases(struct model_tickets *tickets)
{
	uint64_t next_ms = 0;

	if (!tickets->lease_ends_ms || tickets->lease_ends_ms > tickets->boot_ms)
		return;
	for (size_t i = 0; i < tickets->count; i++) {
		struct slot *slot = &tickets->slots[i];
		if (!slot->body || slot->state != STORE_STATE_LEASED || !slot->lease_end_ms)
			continue;
		if (slot->lease_end_ms <= tickets->boot_ms)
			slot_set_state(tickets, slot, STORE_STATE_DUE);
		else if (!next_ms || slot->lease_end_ms < next_ms)
			next_ms = slot->lease_end_ms;
	}
	tickets->lease_ends_ms = next_ms;
}

void model_tickets_drop_dead(struct model_tickets *tickets, uint64_t dead_keep_ms,
                             struct waits *waits)
{
	for (size_t i = tickets->count; i-- > 0 && tickets->counts[STORE_STATE_DEAD] > 0;) {
		struct slot *slot = &tickets->slots[i];
		if (!slot->body || slot->state != STORE_STATE_DEAD ||
		    slot->due_ms + dead_keep_ms > tickets->now_ms)
			continue;
		waits_note_dropped(waits, slot->event);
		slot_close(tickets, slot);
	}
}

void model_tickets_restart(struct model_tickets *tickets, bool shared)
{
	for (size_t i = 0; i < tickets->count; i++) {
		struct slot *slot = &tickets->slots[i];
		bool goes_on = slot->state != STORE_STATE_LEASED || slot->lease_end_ms != 0;
		if (!slot->body || (shared && goes_on))
			continue;
		slot->attempt = slot->used;
		if (slot->state == STORE_STATE_LEASED)
			slot_set_state(tickets, slot, STORE_STATE_DUE);
	}
}

/* ---- giving out ---- */

/* When its lease ends, by the store's clock, or when it is due. */
static uint64_t item_due_ms(const struct model_tickets *tickets, const struct slot *slot)
{
	if (slot->state != STORE_STATE_LEASED || !slot->lease_end_ms)
		return slot->due_ms;
	return tickets->now_ms + (slot->lease_end_ms - tickets->boot_ms);
}

static struct store_item item_of(const struct model_tickets *tickets, const struct slot *slot)
{
	return (struct store_item){ .ticket = slot->ticket,
		                    .event = slot->event,
		                    .order = slot->order,
		                    .due_ms = item_due_ms(tickets, slot),
		                    .sink = slot->sink,
		                    .attempt = slot->attempt,
		                    .flags = slot->body->flags,
		                    .state = (uint8_t)slot->state,
		                    .last = (uint8_t)(slot->notes ? slot->notes->head.mark : 0),
		                    .status = slot->notes ? slot->notes->head.status : 0 };
}

static struct store_parts parts_of(const struct slot *slot)
{
	const struct ticket_body *body = slot->body;
	const char *metadata = body->bytes + body->source_len;

	return (struct store_parts){ .source = span_of(body->bytes, body->source_len),
		                     .metadata = span_of(metadata, body->metadata_len),
		                     .payload = span_of(metadata + body->metadata_len,
		                                        body->payload_len) };
}

static size_t parts_len(const struct store_parts *parts)
{
	return parts->source.len + parts->metadata.len + parts->payload.len;
}

static bool take_fits(const struct store_take *take, const struct store_parts *parts)
{
	return take->count == 0 ||
	       take->items.len + sizeof(struct store_item) + parts_len(parts) <= take->max_bytes;
}

/* With the number of the attempt to make. */
static int take_append(struct model_tickets *tickets, struct store_take *take,
                       const struct slot *slot)
{
	struct store_item item = item_of(tickets, slot);
	struct store_parts parts = parts_of(slot);

	item.attempt = store_attempt_next(item.attempt);
	item.state = STORE_STATE_LEASED;
	if (take->without_payload) {
		parts = (struct store_parts){ 0 };
		item.bare = true;
		item.flags = 0;
	}
	return take_fits(take, &parts) ? store_item_append(&take->items, &item, &parts) : ERR_FULL;
}

int model_tickets_take_one(struct model_tickets *tickets, struct store_take *take)
{
	struct slot *slot = slot_find(tickets, take->ticket);

	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = tickets->now_ms;
	if (!slot || slot->state != STORE_STATE_DUE || slot->sink != take->sink ||
	    slot->due_ms > tickets->now_ms)
		return 0;
	struct note *started = mem_zalloc(1, sizeof(*started));
	if (!started || take_append(tickets, take, slot) < 0) {
		mem_free(started);
		return ERR_FULL;
	}
	slot_begin(tickets, slot, started, take->lease_ms);
	take->count = 1;
	return 0;
}

bool model_tickets_take(struct model_tickets *tickets, struct store_take *take)
{
	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = tickets->now_ms;
	bool first = true; /* of all that are due */
	for (size_t i = tickets->due_from; i < tickets->count && take->count < take->max_items &&
	                                   tickets->counts[STORE_STATE_DUE];
	     i++) {
		struct slot *slot = &tickets->slots[i];
		if (!slot->body || slot->state != STORE_STATE_DUE)
			continue;
		if (first)
			tickets->due_from = i;
		first = false;
		if (slot->sink != take->sink)
			continue;
		if (take_append(tickets, take, slot) < 0)
			break;
		slot->attempt = store_attempt_next(slot->attempt);
		slot->lease_end_ms = lease_end(tickets, take->lease_ms);
		slot_set_state(tickets, slot, STORE_STATE_LEASED);
		take->count++;
	}
	return take->count > 0;
}

int model_tickets_read(struct model_tickets *tickets, struct store_read *read)
{
	const struct slot *slot = slot_find(tickets, read->ticket);

	buf_clear(&read->items);
	if (!slot)
		return -ENOENT;
	struct store_parts parts = parts_of(slot);
	struct store_item item = item_of(tickets, slot);
	int r = store_item_append(&read->items, &item, &parts);
	for (const struct note *note = slot->notes; note && read->history && r == 0;
	     note = note->older)
		r = store_history_append(&read->items, note->head,
		                         span_of(note->text, note->head.text_len));
	return r;
}

static bool scan_wants(const struct store_scan *scan, const struct slot *slot)
{
	return slot->body && (scan->states == 0 || scan->states & 1u << slot->state) &&
	       (scan->sink == 0 || scan->sink == slot->sink);
}

int model_tickets_scan(struct model_tickets *tickets, struct store_scan *scan)
{
	uint64_t from = scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from;
	uint64_t to = scan->to ? scan->to : UINT64_MAX;
	size_t at = slot_index(tickets, from);

	buf_clear(&scan->items);
	scan->count = 0;
	for (; at < tickets->count && tickets->slots[at].ticket <= to; at++) {
		const struct slot *slot = &tickets->slots[at];
		if (!scan_wants(scan, slot))
			continue;
		struct store_parts parts = parts_of(slot);
		struct store_item item = item_of(tickets, slot);
		if (!scan->with_payload) {
			parts.payload = SPAN_EMPTY;
			item.bare = true;
		}
		if (scan->count == scan->max_items ||
		    (scan->count > 0 &&
		     scan->items.len + sizeof(item) + parts_len(&parts) > scan->max_bytes))
			break;
		int r = store_item_append(&scan->items, &item, &parts);
		if (r < 0)
			return r;
		scan->count++;
	}
	scan->end = at == tickets->count || tickets->slots[at].ticket > to;
	scan->cursor.word[0] = scan->end ? UINT64_MAX : tickets->slots[at].ticket;
	return 0;
}

int model_tickets_list_held(const struct model_tickets *tickets, struct store_held *held)
{
	uint64_t before = held->before ? held->before : UINT64_MAX;

	held->count = 0;
	for (size_t i = tickets->count; i > 0 && held->count < held->max; i--) {
		const struct slot *slot = &tickets->slots[i - 1];
		if (!slot->body || slot->state != STORE_STATE_HELD || slot->ticket >= before)
			continue;
		held->tickets[held->count++] = slot->event;
		before = slot->event; /* its other legs are told with it */
	}
	return 0;
}
