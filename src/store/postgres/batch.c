/* batch: see batch.h. */
#include "store/postgres/batch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "store/postgres/statements.h"

/* ---- asking ---- */

/* A row that cannot be listed makes the sheet useless, and is noticed at its end. */
static void list(struct sheet *sheet, struct row_list *to, void *row, bool wanted)
{
	if (wanted && row_list_add(to, row) < 0)
		sheet->failed = -ENOMEM;
}

static void ask_new_claims(struct sheet *sheet, struct line *line, uint64_t clock)
{
	struct row_list wanted = { 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		list(sheet, &wanted, row, row->wanted);
	}
	struct postgres_args *args = &line->args;
	postgres_args_u64(args, sheet->numbers);
	postgres_args_u64(args, clock);
	postgres_args_keys(args, batch_column(&wanted, offsetof(struct claim_row, key)));
	postgres_args_u64s(args, batch_column(&wanted, offsetof(struct claim_row, offset)));
	postgres_args_u64s(args, batch_column(&wanted, offsetof(struct claim_row, window_ms)));
	postgres_args_u64s(args, batch_column(&wanted, offsetof(struct claim_row, order)));
	postgres_args_u64s(args, batch_column(&wanted, offsetof(struct claim_row, check)));
	line_send(line, "claims_insert");
	row_list_free(&wanted);
}

static void ask_locked_claims(struct sheet *sheet, struct line *line)
{
	struct row_list keys = { 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		list(sheet, &keys, row, row->locked);
	}
	postgres_args_keys(&line->args, batch_column(&keys, offsetof(struct claim_row, key)));
	line_send(line, "claims_lock");
	row_list_free(&keys);
}

/* Those that were there already, and need no lock. */
static void ask_old_claims(struct sheet *sheet, struct line *line)
{
	struct row_list keys = { 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		list(sheet, &keys, row, !row->locked && !row->inserted);
	}
	postgres_args_keys(&line->args, batch_column(&keys, offsetof(struct claim_row, key)));
	line_send(line, "claims_read");
	row_list_free(&keys);
}

static void ask_legs(struct sheet *sheet, struct line *line)
{
	struct row_list keys = { 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		list(sheet, &keys, row, row->asked && !row->inserted);
	}
	postgres_args_keys(&line->args, batch_column(&keys, offsetof(struct claim_row, key)));
	line_send(line, "legs_read");
	row_list_free(&keys);
}

static void ask_new_cells(struct sheet *sheet, struct line *line)
{
	struct row_list keys = { 0 };
	for (uint32_t i = 0; i < sheet->cells.count; i++) {
		struct cell_row *row = sheet->cells.at[i];
		list(sheet, &keys, row, row->put);
	}
	postgres_args_keys(&line->args, batch_column(&keys, offsetof(struct cell_row, key)));
	line_send(line, "cells_insert");
	row_list_free(&keys);
}

static void ask_cells(struct sheet *sheet, struct line *line, bool locked)
{
	struct row_list keys = { 0 };
	for (uint32_t i = 0; i < sheet->cells.count; i++) {
		struct cell_row *row = sheet->cells.at[i];
		list(sheet, &keys, row, row->locked == locked);
	}
	postgres_args_keys(&line->args, batch_column(&keys, offsetof(struct cell_row, key)));
	postgres_args_u64s(&line->args,
	                   batch_column(&keys, offsetof(struct cell_row, value_wanted)));
	line_send(line, locked ? "cells_lock" : "cells_read");
	row_list_free(&keys);
}

static void ask_tickets(struct sheet *sheet, struct line *line)
{
	struct row_list all = { 0 }, whole = { 0 };
	for (uint32_t i = 0; i < sheet->tickets.count; i++) {
		struct ticket_row *row = sheet->tickets.at[i];
		list(sheet, &all, row, true);
		list(sheet, &whole, row, row->parts_wanted);
	}
	postgres_args_u64s(&line->args, batch_column(&all, offsetof(struct ticket_row, ticket)));
	line_send(line, "tickets_lock");
	postgres_args_u64s(&line->args, batch_column(&whole, offsetof(struct ticket_row, ticket)));
	line_send(line, "parts_read");
	row_list_free(&all);
	row_list_free(&whole);
}

/* Which questions are asked at all. */
struct questions {
	bool locked, cells, tickets;
};

static struct questions choose_questions(const struct sheet *sheet)
{
	struct questions ask = { .cells = sheet->cells.count > 0,
		                 .tickets = sheet->tickets.count > 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++)
		ask.locked |= ((const struct claim_row *)sheet->claims.at[i])->locked;
	return ask;
}

/* In the order of locks (schema.h, S2). */
static void ask_all(struct sheet *sheet, struct line *line, const struct questions *ask,
                    uint64_t clock)
{
	rows_sort(&sheet->claims);
	rows_sort(&sheet->cells);
	rows_sort(&sheet->tickets);
	line_begin(line);
	ask_new_claims(sheet, line, clock);
	if (ask->locked)
		ask_locked_claims(sheet, line);
	if (ask->cells) {
		ask_new_cells(sheet, line);
		ask_cells(sheet, line, true);
		ask_cells(sheet, line, false);
	}
	if (ask->tickets)
		ask_tickets(sheet, line);
	line_sync(line);
}

/* ---- reading ---- */

static struct row_key key_at(const struct postgres_answer *answer, uint32_t row, uint32_t column)
{
	struct row_key key = { { 0 } };
	struct span bytes = postgres_span(answer, row, column);
	if (bytes.len == ROW_KEY_LEN)
		memcpy(key.bytes, bytes.ptr, ROW_KEY_LEN);
	return key;
}

/* The numbers, the time, and which claims were inserted, one a row. */
static int read_inserted(struct sheet *sheet, struct line *line)
{
	struct postgres_answer answer = { 0 };
	int error = line_take(line, &answer);
	for (uint32_t i = 0; !error && i < postgres_rows(&answer); i++) {
		struct row_key key = key_at(&answer, i, 2);
		struct claim_row *row = rows_find(&sheet->claims, &key);
		sheet->first = postgres_u64(&answer, i, 0);
		sheet->now_ms = postgres_u64(&answer, i, 1);
		if (row && !postgres_is_null(&answer, i, 2))
			row->inserted = true;
	}
	postgres_answer_free(&answer);
	return error;
}

static void fill_claim(struct sheet *sheet, const struct postgres_answer *answer, uint32_t i)
{
	struct row_key key = key_at(answer, i, 0);
	struct claim_row *row = rows_find(&sheet->claims, &key);
	if (!row)
		return;
	row->found = true;
	row->stored = (struct claim_values){ .ticket = postgres_u64(answer, i, 1),
		                             .expiry = postgres_u64(answer, i, 2),
		                             .order = postgres_u64(answer, i, 3),
		                             .check = postgres_u64(answer, i, 4) };
	row->now = row->stored;
	row->live = row->now.expiry > sheet->now_ms;
	struct seen_row *seen = sheet_seen(sheet, row->now.ticket);
	if (seen)
		seen->seen = postgres_u64(answer, i, 5);
}

static void fill_cell(struct sheet *sheet, const struct postgres_answer *answer, uint32_t i)
{
	struct row_key key = key_at(answer, i, 0);
	struct cell_row *row = rows_find(&sheet->cells, &key);
	if (!row)
		return;
	row->found = true;
	row->expiry = postgres_u64(answer, i, 1);
	row->live = row->expiry == 0 || row->expiry > sheet->now_ms;
	struct span value = arena_copy(&sheet->arena, postgres_span(answer, i, 2));
	if (!value.ptr)
		sheet->failed = -ENOMEM;
	row->value = value;
}

static void fill_ticket(struct sheet *sheet, const struct postgres_answer *answer, uint32_t i)
{
	struct ticket_row *row = sheet_ticket_add(sheet, postgres_u64(answer, i, 0));
	if (!row || row->state != 0)
		return;
	row->event = postgres_u64(answer, i, 1);
	row->sink = postgres_u64(answer, i, 2);
	row->order = postgres_u64(answer, i, 3);
	row->due = postgres_u64(answer, i, 4);
	row->lease = postgres_u64(answer, i, 5);
	row->node = postgres_u64(answer, i, 6);
	row->attempt = postgres_u64(answer, i, 7);
	row->used = postgres_u64(answer, i, 8);
	row->status = postgres_u64(answer, i, 9);
	row->state = postgres_u64(answer, i, 10);
	row->last = postgres_u64(answer, i, 11);
	/* The lease is over, though nobody has said so yet. */
	if (row->state == STORE_STATE_LEASED && row->lease != 0 && row->lease <= sheet->now_ms)
		row->state = STORE_STATE_DUE;
}

static void fill_parts(struct sheet *sheet, const struct postgres_answer *answer, uint32_t i)
{
	struct ticket_row *row = sheet_ticket(sheet, postgres_u64(answer, i, 0));
	if (!row)
		return;
	row->flags = (uint32_t)postgres_u64(answer, i, 1);
	row->parts.source = arena_copy(&sheet->arena, postgres_span(answer, i, 2));
	row->parts.letter = arena_copy(&sheet->arena, postgres_span(answer, i, 3));
	row->parts.payload = arena_copy(&sheet->arena, postgres_span(answer, i, 4));
	if (!row->parts.source.ptr || !row->parts.letter.ptr || !row->parts.payload.ptr)
		sheet->failed = -ENOMEM;
}

static int read_rows(struct sheet *sheet, struct line *line,
                     void (*fill)(struct sheet *sheet, const struct postgres_answer *answer,
                                  uint32_t i))
{
	struct postgres_answer answer = { 0 };
	int error = line_take(line, &answer);
	for (uint32_t i = 0; !error && i < postgres_rows(&answer); i++)
		fill(sheet, &answer, i);
	postgres_answer_free(&answer);
	return error;
}

static int read_all(struct sheet *sheet, struct line *line, const struct questions *ask)
{
	int error = line_take_nothing(line); /* BEGIN */
	line_join(&error, line_take_nothing(line));
	line_join(&error, read_inserted(sheet, line));
	if (ask->locked)
		line_join(&error, read_rows(sheet, line, fill_claim));
	if (ask->cells) {
		line_join(&error, line_take_nothing(line));
		line_join(&error, read_rows(sheet, line, fill_cell));
		line_join(&error, read_rows(sheet, line, fill_cell));
	}
	if (ask->tickets) {
		line_join(&error, read_rows(sheet, line, fill_ticket));
		line_join(&error, read_rows(sheet, line, fill_parts));
	}
	if (line_is_in_order(error))
		line_join(&error, line_take_sync(line));
	return error;
}

/* Claims that were there already, and whether their events are open. */
static int read_old(struct sheet *sheet, struct line *line)
{
	bool old = false, asked = false;
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		const struct claim_row *row = sheet->claims.at[i];
		old |= !row->inserted && !row->locked;
		asked |= !row->inserted && row->asked;
	}
	if (!old && !asked)
		return 0;
	ask_old_claims(sheet, line);
	ask_legs(sheet, line);
	line_sync(line);
	int error = read_rows(sheet, line, fill_claim);
	line_join(&error, read_rows(sheet, line, fill_ticket));
	if (line_is_in_order(error))
		line_join(&error, line_take_sync(line));
	return error;
}

/* Every claim that was wanted was inserted or is there; if not, it expired in between. */
static bool is_whole(const struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		const struct claim_row *row = sheet->claims.at[i];
		if (row->wanted && !row->inserted && !row->found)
			return false;
	}
	return true;
}

/* What was inserted is as it was asked for. */
static void note_inserted(struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		uint64_t ticket = sheet->first + row->offset;
		if (!row->inserted)
			continue;
		row->stored = (struct claim_values){ .ticket = ticket,
			                             .expiry = statements_ticket_ms(ticket) +
			                                       row->window_ms,
			                             .order = row->order,
			                             .check = row->check };
	}
}

/* ---- all of it ---- */

static int write_all(struct sheet *sheet, struct line *line, const struct batch_options *options)
{
	batch_write(sheet, line, options);
	line_sync(line);
	int error = 0;
	while (line->sent > 1)
		line_join(&error, line_take_nothing(line));
	line_join(&error, line_take_commit(line));
	if (line_is_in_order(error))
		line_join(&error, line_take_sync(line));
	if (!error)
		line_committed(line);
	/* The server told of no failure, but the end was not heard. */
	return error < 0 && error != -EPROTO ? BATCH_UNKNOWN : error;
}

/* Dense: the numbers that were not used. */
static int give_back(const struct sheet *sheet, struct line *line)
{
	struct postgres_answer answer = { 0 };
	if (!sheet->dense || sheet->numbers == 0)
		return 0;
	postgres_args_u64(&line->args, sheet->first + sheet->numbers - 1);
	postgres_args_u64(&line->args, sheet->first - 1);
	int error = line_query(line, "give_back", &answer);
	postgres_answer_free(&answer);
	return error;
}

int batch_run(struct sheet *sheet, struct line *line, const struct batch_options *options)
{
	struct questions ask = choose_questions(sheet);
	ask_all(sheet, line, &ask, options->clock);
	int error = read_all(sheet, line, &ask);
	if (!error)
		error = read_old(sheet, line);
	if (!error && !is_whole(sheet))
		sheet->short_of = true;
	if (!error && !sheet->short_of) {
		note_inserted(sheet);
		sheet_decide(sheet);
	}
	if (error == 0 && sheet->failed)
		error = sheet->failed;
	if (error == 0 && sheet->short_of)
		error = BATCH_AGAIN;
	if (error == 0)
		error = write_all(sheet, line, options);
	if (error == 0 || error == BATCH_UNKNOWN)
		return error;
	if (error < 0 && error != -EPROTO && error != sheet->failed) {
		line_close(line);
		return error;
	}
	int rolled_back = line_rollback(line);
	if (rolled_back == 0 && error == BATCH_AGAIN)
		rolled_back = give_back(sheet, line);
	return rolled_back < 0 && error == BATCH_AGAIN ? rolled_back : error;
}

/* ---- in one trip ---- */

/* Dense: none was used, and nobody said which they were; nobody else got any meanwhile. */
static int give_back_all(const struct sheet *sheet, struct line *line)
{
	struct postgres_answer answer = { 0 };
	if (!sheet->dense)
		return 0;
	postgres_args_u64(&line->args, sheet->numbers);
	int error = line_query(line, "give_back_all", &answer);
	postgres_answer_free(&answer);
	return error;
}

static int read_numbers(struct sheet *sheet, struct line *line)
{
	struct postgres_answer answer = { 0 };
	int error = line_take(line, &answer);
	if (!error) {
		sheet->first = postgres_u64(&answer, 0, 0);
		sheet->now_ms = postgres_u64(&answer, 0, 1);
	}
	postgres_answer_free(&answer);
	while (line->sent > 0)
		line_join(&error, line_take_nothing(line));
	/* The server commits when it comes to the end of what was sent. */
	if (line_is_in_order(error))
		line_join(&error, line_take_sync(line));
	return error;
}

/* What the server refused: it has rolled back. */
static int cope_with_refusal(const struct sheet *sheet, struct line *line)
{
	bool old = line_divided(line);
	int error = old ? give_back_all(sheet, line) : line_rollback(line);
	if (error)
		return error;
	return old ? BATCH_OLD : -EPROTO;
}

int batch_run_all(struct sheet *sheet, struct line *line, const struct batch_options *options)
{
	rows_sort(&sheet->claims);
	sheet_open_all(sheet);
	if (sheet->failed)
		return sheet->failed;
	sheet->all_at_once = true;
	batch_write_all(sheet, line, options);
	int error = read_numbers(sheet, line);
	if (error == -EPROTO)
		return cope_with_refusal(sheet, line);
	if (error)
		return BATCH_UNKNOWN;
	line->mark = line_mark_of(sheet->first);
	sheet_all_new(sheet);
	return BATCH_DONE;
}

void batch_all_committed(struct sheet *sheet, const struct line *line)
{
	sheet->first = line_first(line);
	sheet->now_ms = statements_ticket_ms(sheet->first);
	sheet_all_new(sheet);
}
