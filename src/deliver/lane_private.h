/*
 * lane_private: what the files of a lane share.
 *
 *   lane.c         begin and end, one run, takes from the store, commands, view
 *   attempt.c      begin, read, note, send; the result is judged and recorded
 *   dead_letter.c  a dead event goes to a sink of its own
 *   lane_lease.c   leases that end, and successes recorded too late
 *   sink_state.c   paused and disabled are saved in the store
 *
 * An attempt's stages:
 *
 *   RENEWING ──► READING ──► NOTING ──► READY ──► OUT ──► RECORDING ──► the pool
 *   (a lease in  (its bytes) (STARTED)  (chain)  (outlet) (settle, note)
 *   doubt)
 *
 * Room: deliver. Only these files include it.
 */
#pragma once

#include "base/buf.h"
#include "deliver/lane.h"
#include "deliver/schedule.h"

#define LANE_TAKES 3u
#define LANE_TAKE_ITEMS 1024u
#define LANE_TAKE_BYTES (1u << 20)
#define LANE_LARGE_ITEMS 4096u /* of a take for an immediate outlet */
#define LANE_LARGE_BYTES (4u << 20)
#define LANE_BARE_ITEMS 4096u  /* of a take without payloads */
#define LANE_BARE_EVERY_MS 20u /* such takes come no closer */
#define LANE_POOL_MAX (LANE_TAKES * LANE_TAKE_ITEMS)
#define LANE_SLAB 64u /* attempts that are allocated together */
#define LANE_SLABS (LANE_POOL_MAX / LANE_SLAB)
#define LANE_RECORDS_MAX (LANE_TAKES * LANE_LARGE_ITEMS)
#define LANE_RECORD_SLABS (LANE_RECORDS_MAX / LANE_SLAB)
#define LANE_KEEP_BYTES 65536u /* a pooled attempt keeps no larger buffer */
#define LANE_LEASED_MAX 1024u  /* tickets held when leases end, but for those that wait */
#define LANE_RETRY_MS 1000u    /* after an error of the store */

/* Of a ticket (schedule_ticket.marks). */
enum lane_marks {
	LANE_MARK_UNKNOWN = 1, /* an attempt before it may have arrived */
	LANE_MARK_LOST = 2,    /* its lease is over while an attempt is under way */
	LANE_MARK_NOTING = 4,  /* its number is about to move on */
};

enum lane_life {
	LANE_LIVE = 0,
	LANE_OUT_OF_USE, /* its sink was removed from the configuration; it may come back */
	LANE_STOPPING,   /* for good */
};

enum lane_stage {
	STAGE_FREE = 0,
	STAGE_RENEWING,
	STAGE_READING,
	STAGE_NOTING,
	STAGE_READY,
	STAGE_OUT,
	STAGE_RECORDING,
};

struct lane_attempt {
	struct outlet_attempt out;
	struct lane *lane;
	struct lane_attempt *next_free;
	struct lane_drop *drop; /* who waits until it is dropped, or NULL */
	enum lane_stage stage;
	uint32_t place; /* in the schedule, or SCHEDULE_NONE */
	uint32_t turn;  /* of the breaker */
	uint32_t lease;
	uint64_t order;
	uint64_t due_ms;   /* after a failure: CLOCK_BOOTTIME */
	uint64_t asked_ms; /* a renewal: when it was */
	bool begun;        /* limiter and breaker count it */
	bool asks;         /* a probe */
	bool noted;        /* that it starts */
	bool filled;       /* its bytes are there */
	bool forget;       /* no dead letter */
	bool owns;         /* its bytes are its own, not a take's */
	bool has_metadata; /* out.metadata is not empty */
	uint8_t marks;
	union {
		struct store_settle settle;
		struct store_note note;
		struct store_renew renew;
	};
	struct store_read read; /* its items are the attempt's own bytes */
};

/* A success on its way to the store. It needs nothing of its attempt, which goes back
 * to the pool at once: so few of those are in use, and stay in the cache. */
struct lane_record {
	struct store_settle settle;
	struct lane *lane;
	struct lane_record *next_free;
	bool outdated; /* its ticket has come again, and is settled under that number */
};

enum take_state { TAKE_IDLE = 0, TAKE_WAITING, TAKE_ARRIVED };

struct lane_take {
	struct lane *lane;
	enum take_state state;
	uint64_t order; /* they are looked at in the order they came back */
	uint64_t asked_ms;
	struct store_take take;
};

struct lane_renewal {
	struct lane *lane;
	uint32_t place;
	uint64_t asked_ms;
	struct store_renew renew;
};

struct sink_state {
	struct store_cell op;
	char name[sizeof("sink-state:") + LANE_NAME_MAX];
	uint32_t name_len;
	char value[sizeof("paused,disabled")];
	uint32_t value_len;
	bool under_way;
	bool known;   /* it was read */
	bool dirty;   /* it is to be written */
	bool failed;  /* the last write was */
	bool renamed; /* since what is under way was asked: its answer is another's */
	uint64_t at_ms;
};

struct lane {
	char name[LANE_NAME_MAX + 1];
	uint32_t sink;
	struct deliver_policy policy;
	struct outlet *outlet;
	struct store *store;
	struct port *port;
	const struct clock *clock;
	uint64_t random;
	uint32_t lease_ms;
	struct feed *feed; /* NULL: no listener */
	uint64_t born_ms;

	uint64_t now_ms;   /* CLOCK_BOOTTIME */
	uint64_t store_ms; /* the store's clock is ahead of ours by that (modulo 2^64) */
	bool running;      /* inside lane_run(): now_ms is right */
	bool urgent;       /* something was submitted that is waited for */
	bool lazy;         /* something was submitted that is not */

	struct schedule schedule;
	struct breaker breaker;
	struct limiter limiter;
	bool paused, disabled; /* saved: see sink_state.c */
	enum lane_life life;
	struct sink_state saved;
	bool changing; /* outlet and policy are about to */

	struct lane_take takes[LANE_TAKES];
	uint64_t taken;
	uint64_t take_after_ms;
	uint32_t take_errors; /* in a row */

	struct lane_attempt *slabs[LANE_SLABS];
	uint32_t slab_count;
	struct lane_attempt *pool;
	uint32_t pooled; /* in the pool or not yet allocated */
	uint32_t out;    /* with the outlet */
	struct outlet_attempt *chain;
	struct outlet_attempt **chain_end;
	uint32_t chained;
	struct lane_record *record_slabs[LANE_RECORD_SLABS];
	uint32_t record_slab_count;
	struct lane_record *records;
	uint32_t recordable;  /* in `records` or not yet allocated */
	uint64_t *known;      /* see lane_lease.c; NULL: none yet */
	uint64_t known_count; /* ever */

	struct outlet_attempt *dead_letters; /* dead, and the store has not taken it yet */
	uint64_t dead_letter_at_ms;
	bool dead_letter_logged;

	struct lane_renewal *renewals; /* LANE_LEASED_MAX, if leases end */
	uint32_t renewing;
	uint64_t renew_at_ms;
	uint32_t long_leased;  /* tickets with more than a usual lease left, as last counted */
	uint32_t renewed_last; /* place of the last of a full round, or SCHEDULE_NONE */

	struct lane_view counts; /* what the view takes over as it is */
};

/* lane.c */
void lane_submit(struct lane *lane, struct store_op *op, bool urgent);
uint64_t lane_random(struct lane *lane);
uint64_t lane_store_time(const struct lane *lane, uint64_t boot_ms); /* as the store has it */
uint32_t lane_room(struct lane *lane); /* how many attempts may begin now */

/* What waits may start: nothing holds it back any more. */
void lane_go(struct lane *lane);
bool lane_is_barred(const struct lane *lane); /* paused, disabled, removed, or not known yet */

/* sink_state.c */
void sink_state_init(struct lane *lane);
void sink_state_changed(struct lane *lane);
void sink_state_renamed(struct lane *lane);
void sink_state_run(struct lane *lane);
uint64_t sink_state_next_ms(const struct lane *lane);

/* attempt.c */
struct lane_attempt *lane_pool_get(struct lane *lane); /* NULL: none is left */
void lane_pool_put(struct lane_attempt *attempt);
void lane_pool_free(struct lane *lane);

/* A ticket's attempt begins. There is room. `place`: where it stands in the schedule,
 * started, or SCHEDULE_NONE. `parts` NULL: they are read. */
struct lane_start {
	const struct schedule_ticket *ticket;
	uint32_t place;
	const struct store_item *item;
	const struct store_parts *parts;
};

void lane_begin(struct lane *lane, const struct lane_start *start);
void lane_send(struct lane *lane);

/* Its ticket leaves the lane with this outcome, and with the result's text and status. */
void lane_settle(struct lane_attempt *attempt, enum outcome outcome);
/* It did not begin after all; its ticket is due again at that time. */
void lane_put_back(struct lane_attempt *attempt, uint64_t due_ms);
/* Its ticket is not ours any more, or its bytes are gone. */
void lane_leave(struct lane_attempt *attempt);
bool lane_is_lost(const struct lane_attempt *attempt);

/* dead_letter.c: then it is settled as dead. */
void dead_letter_send(struct lane_attempt *attempt);
/* What the store could not take is offered again; when the lane stops it is put back. */
void dead_letter_send_again(struct lane *lane);

/* This ticket is done, but the store refused the outcome. */
void lane_known_add(struct lane *lane, uint64_t ticket);
/* One that comes from the store is known to be done: then it is settled so. */
bool lane_known_settle(struct lane *lane, const struct store_item *item);

/* lane_lease.c */
uint32_t lane_lease_from(const struct lane *lane, uint64_t asked_ms);
bool lane_lease_over(struct lane *lane, uint32_t lease); /* asks the clock */
void lane_renew(struct lane *lane);
/* Leases end, and nothing more is delivered from here: others shall have what it holds. */
bool lane_gives_back(const struct lane *lane);
void lane_give_back(struct lane *lane); /* if so, all that has not begun */
