/* filter: see filter.h. */
#include "cli/filter/filter.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/filter/claims.h"
#include "cli/filter/split.h"
#include "codec/json_write.h"
#include "sys/stream.h"

/* Small enough to stay in the caches from read to write, and large enough that a
 * system call costs nothing. To map the file instead gains nothing, and a file that is
 * truncated meanwhile would end the process. */
#define BLOCK_BYTES (1u << 20)
#define ROOM_BYTES (FILTER_EVENT_MAX + 2 * BLOCK_BYTES)
#define REJECTED_BLOCK (256u << 10) /* bytes that are written together */
#define BEGINS_MAX 256u             /* shown of an event that is too long */
#define REASON_MAX 320

struct filter {
	struct filter_options options;
	struct filter_stats stats;
	struct filter_claims *claims;
	struct recipe_scratch scratch;
	struct recipe_scratch words_scratch; /* an iteration over items uses the other one */
	struct filter_envelope envelope;
	struct filter_split split;
	const char *name; /* of the input, or NULL */
	uint64_t now_ms;  /* of the last event that has a time, or of the clock */
	struct buf out;
	struct buf rejected;
	struct buf words;     /* of a claim, for the rejected */
	bool rejected_failed; /* an error is that of the rejected, not of the output */
	char *bytes;          /* ROOM_BYTES */
};

int filter_new(const struct filter_options *options, struct filter **ret_filter)
{
	struct filter *filter = mem_zalloc(1, sizeof(*filter));
	if (!filter)
		return -ENOMEM;
	filter->options = *options;
	filter_envelope_init(&filter->envelope);
	filter->bytes = mem_map(ROOM_BYTES);
	if (!filter->bytes || filter_claims_new(&filter->claims) != 0) {
		filter_free(filter);
		return -ENOMEM;
	}
	*ret_filter = filter;
	return 0;
}

struct filter *filter_free(struct filter *filter)
{
	if (!filter)
		return NULL;
	filter_claims_free(filter->claims);
	recipe_scratch_free(&filter->scratch);
	recipe_scratch_free(&filter->words_scratch);
	filter_envelope_free(&filter->envelope);
	buf_free(&filter->out);
	buf_free(&filter->rejected);
	buf_free(&filter->words);
	mem_unmap(filter->bytes, ROOM_BYTES);
	return mem_free(filter);
}

struct filter_stats filter_get_stats(const struct filter *filter)
{
	struct filter_stats stats = filter->stats;
	struct filter_claims_stats claims = filter_claims_get_stats(filter->claims);
	stats.claims = claims.claims;
	stats.claims_bytes = claims.bytes;
	stats.claims_forgotten = claims.forgotten;
	return stats;
}

/* ---- what is written ---- */

static int flush(int fd, struct buf *bytes)
{
	int error = bytes->failed ? bytes->failed : stream_write(fd, buf_span(bytes));
	buf_clear(bytes);
	return error;
}

static int flush_rejected(struct filter *filter)
{
	int error = flush(filter->options.rejected_fd, &filter->rejected);
	filter->rejected_failed = error != 0;
	/* Only the reader of the output may end the filter without an error. */
	return error == -EPIPE ? -EIO : error;
}

static void begin_rejected(struct filter *filter, uint64_t line, const char *verdict,
                           struct span reason)
{
	struct buf *out = &filter->rejected;
	json_object_begin(out, NULL);
	json_add_u64(out, "number", filter->stats.read);
	json_add_u64(out, "line", line);
	json_add_text_if(out, "file", span_str(filter->name));
	json_add_string(out, "verdict", verdict);
	json_add_text(out, "reason", reason);
}

static int end_rejected(struct filter *filter)
{
	struct buf *out = &filter->rejected;
	json_object_end(out);
	buf_append_char(out, '\n');
	return out->failed || out->len >= REJECTED_BLOCK ? flush_rejected(filter) : 0;
}

/* An event that is not understood. */
static int add_bad(struct filter *filter, uint64_t line, struct span event, const char *reason)
{
	struct error_text text;
	filter->stats.read++;
	filter->stats.bad++;
	if (filter->options.complain) {
		error_fill(&text, 0, "%s:%llu: %s", filter->name ? filter->name : "-",
		           (unsigned long long)line, reason);
		filter->options.complain(filter->options.user, text.text);
	}
	if (filter->options.rejected_fd < 0)
		return 0;
	begin_rejected(filter, line, "bad", span_str(reason));
	if (event.len > FILTER_EVENT_MAX)
		json_add_text(&filter->rejected, "begins", span_of(event.ptr, BEGINS_MAX));
	else
		json_add_text(&filter->rejected, "text", event);
	return end_rejected(filter);
}

/* "the same key as event 7, 1500ms earlier" */
static void write_reason(const struct filter_event *event, const struct filter_verdict *verdict,
                         struct buf *reason)
{
	static const char *const words[VERDICT_COUNT] = {
		[VERDICT_DUPLICATE] = "the same key as event",
		[VERDICT_CONFLICT] = "the same key with other content as event",
		[VERDICT_STALE] = "older than event",
	};
	char gap[TEXT_DURATION_MAX];
	uint64_t first_ms = verdict->first_time_ms;
	bool earlier = first_ms < event->time_ms;
	bool content = event->claims[verdict->matched].kind == CLAIM_CONTENT;
	CHECK(words[verdict->verdict]);
	buf_printf(reason, "%s %llu",
	           content ? "the same content as event" : words[verdict->verdict],
	           (unsigned long long)verdict->first);
	text_duration(gap, earlier ? event->time_ms - first_ms : first_ms - event->time_ms);
	if (event->time_ms == first_ms)
		buf_append_span(reason, SPAN(", of the same time"));
	else
		buf_printf(reason, ", %s %s", gap, earlier ? "earlier" : "later");
}

static int reject(struct filter *filter, const struct filter_piece *piece,
                  const struct recipe_input *input, const struct recipe_result *result,
                  const struct filter_event *event, const struct filter_verdict *verdict)
{
	bool envelope = filter->options.envelope;
	struct span text = envelope ? piece->event : result->payload;
	struct recipe_input alone = { .body = text }; /* without the other events around it */
	char memory[REASON_MAX];
	struct buf reason = buf_on(memory, sizeof(memory));
	struct buf *out = &filter->rejected;
	struct recipe_words words;
	if (filter->options.rejected_fd < 0)
		return 0;
	write_reason(event, verdict, &reason);
	begin_rejected(filter, piece->line, verdict_name(verdict->verdict), buf_span(&reason));
	if (verdict->first > 0)
		json_add_u64(out, "first", verdict->first);
	buf_clear(&filter->words);
	if (recipe_words(filter->options.recipe, &filter->words_scratch, envelope ? input : &alone,
	                 verdict->matched, &filter->words, &words)) {
		json_add_text(out, "claim", words.rule);
		json_add_text(out, "parts", words.parts);
	}
	if (envelope || result->event.json)
		json_add_raw(out, "event", text);
	else
		json_add_text(out, "text", text);
	return end_rejected(filter);
}

/* ---- events ---- */

/* Events without a time are judged at that of the one before. */
static uint64_t time_of(struct filter *filter, const struct event *event)
{
	uint64_t ms;
	if (filter->options.arrival)
		return filter->now_ms;
	if (event->time.coding != EVENT_TEXT_NONE && event_time_ms(event->time, &ms) == 0)
		filter->now_ms = ms;
	else
		filter->stats.undated++;
	return filter->now_ms;
}

/* `several`: the piece holds more events than this one. */
static int add_event(struct filter *filter, const struct filter_piece *piece,
                     const struct recipe_input *input, const struct recipe_result *result,
                     bool several)
{
	struct filter_stats *stats = &filter->stats;
	struct filter_verdict verdict;
	struct filter_event event = {
		.claims = result->claims,
		.claim_count = result->claim_count,
		.on_conflict = filter->options.on_conflict,
		.time_ms = time_of(filter, &result->event),
		.number = ++stats->read,
	};
	int error = filter_claims_decide(filter->claims, &event, &verdict);
	if (error != 0)
		return error;
	stats->verdicts[verdict.verdict]++;
	if (!verdict.passes)
		return reject(filter, piece, input, result, &event, &verdict);
	stats->passed++;
	stats->would += verdict.would != VERDICT_NONE;
	struct span whole = several ? result->payload : piece->whole;
	buf_append_span(&filter->out, whole);
	if (whole.ptr[whole.len - 1] != '\n')
		buf_append_char(&filter->out, '\n');
	return filter->out.failed;
}

static void begin_items(struct filter *filter, const struct recipe_input *input,
                        struct recipe_items *ret_items)
{
	recipe_items_begin(ret_items, filter->options.recipe, &filter->scratch, input);
	ret_items->items_max = UINT32_MAX;
}

/* Whether an array is sound is known at its end only, and what was decided stands: so
 * it is read through first. Of an object, all is read before its first item. */
static bool is_broken_array(struct filter *filter, const struct recipe_input *input,
                            struct recipe_items *items, struct error_text *ret_problem)
{
	struct recipe_result result;
	enum recipe_step step;
	if (input->body.len == 0 || input->body.ptr[0] != '[')
		return false;
	begin_items(filter, input, items);
	do
		step = recipe_items_next(items, &result, ret_problem);
	while (step == RECIPE_EVENT || step == RECIPE_REFUSED);
	return step == RECIPE_BROKEN;
}

/* One piece may hold several events: Records, entities, an array on a line. */
static int add_piece(struct filter *filter, const struct filter_piece *piece)
{
	bool envelope = filter->options.envelope;
	struct recipe_input input = { .body = piece->event };
	struct recipe_items items;
	struct recipe_result result;
	struct error_text problem;
	int error = 0;
	if (envelope)
		error = filter_envelope_open(&filter->envelope, piece->event, &input, &problem);
	if (error == 0 && is_broken_array(filter, &input, &items, &problem))
		error = items.error;
	if (error == -ENOMEM)
		return error;
	if (error != 0)
		return add_bad(filter, piece->line, piece->event, problem.text);
	begin_items(filter, &input, &items);
	while (error == 0) {
		enum recipe_step step = recipe_items_next(&items, &result, &problem);
		if (envelope && items.batch) /* one envelope cannot be written in parts */
			return add_bad(filter, piece->line, piece->event,
			               "expected one event in an envelope, found several");
		switch (step) {
		case RECIPE_END: return 0;
		case RECIPE_EVENT:
			error = add_event(filter, piece, &input, &result, items.batch);
			break;
		case RECIPE_REFUSED:
			error = add_bad(filter, piece->line,
			                envelope ? piece->event : result.payload, problem.text);
			break;
		case RECIPE_BROKEN:
			if (items.error == -ENOMEM)
				return -ENOMEM;
			return add_bad(filter, piece->line, piece->event, problem.text);
		}
	}
	return error;
}

/* ---- blocks ---- */

/* In texts an event may have line breaks, between its tokens only: they become
 * blanks, in the block itself. */
static void make_one_line(struct filter *filter, struct span event)
{
	char *p = filter->bytes + (event.ptr - filter->bytes);
	for (size_t i = 0; i < event.len; i++)
		if (p[i] == '\n' || p[i] == '\r')
			p[i] = ' ';
}

/* All events of the block; `block` is then what is left of it. */
static int add_block(struct filter *filter, struct span *block, bool last,
                     struct error_text *ret_text)
{
	struct filter_piece piece;
	struct error_text reason;
	enum filter_step step;
	int error = 0;
	do {
		step = filter_split_next(&filter->split, block, last, &piece);
		if (step == FILTER_EVENT) {
			if (filter->split.form == FILTER_TEXTS)
				make_one_line(filter, piece.event);
			error = add_piece(filter, &piece);
		} else if (step == FILTER_TOO_LONG) {
			error_fill(&reason, 0, "an event of more than %u MiB",
			           FILTER_EVENT_MAX >> 20);
			error = add_bad(filter, piece.line, piece.event, reason.text);
		} else if (step == FILTER_BROKEN) {
			error = error_fill(ret_text, ERR_INVALID,
			                   "line %llu: expected %s; the rest cannot be read",
			                   (unsigned long long)piece.line, piece.expected);
		}
	} while (error == 0 && step != FILTER_MORE && step != FILTER_END);
	/* What was decided stands, also before what is broken. */
	if (error == 0 || error == ERR_INVALID) {
		int written = flush(filter->options.out_fd, &filter->out);
		int rejected = flush_rejected(filter);
		written = written != 0 ? written : rejected;
		error = written != 0 ? written : error;
	}
	return error;
}

int filter_run(struct filter *filter, const struct filter_input *input, struct error_text *ret_text)
{
	struct span block = { filter->bytes, 0 };
	bool last = false;
	int error = 0;
	filter->name = input->name;
	filter->split = (struct filter_split){ .event_max = FILTER_EVENT_MAX };
	while (!last && error == 0) {
		CHECK(block.len + BLOCK_BYTES <= ROOM_BYTES);
		if (block.len > 0 && block.ptr != filter->bytes)
			memmove(filter->bytes, block.ptr, block.len);
		int64_t n = stream_read(input->fd, filter->bytes + block.len, BLOCK_BYTES);
		if (n < 0)
			return error_fill(ret_text, (int)n, "%s", error_name((int)n));
		last = n == 0;
		filter->stats.bytes += (uint64_t)n;
		block = span_of(filter->bytes, block.len + (size_t)n);
		if (filter->options.arrival)
			filter->now_ms = clock_read(filter->options.clock).wall_ms;
		error = add_block(filter, &block, last, ret_text);
		if (filter->options.progress)
			filter->options.progress(filter->options.user, &filter->stats);
	}
	if (error == 0 || error == ERR_INVALID)
		return error;
	if (error == -ENOMEM)
		return error_fill(ret_text, error, "not enough memory for the claims");
	return error_fill(ret_text, error, "%s: %s",
	                  filter->rejected_failed ? "--rejected" : "standard output",
	                  error_name(error));
}
