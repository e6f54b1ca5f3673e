/*
 * fuzz_filter_lines: the filter over lines against a filter that is obviously right: cut at
 * line breaks, each line read by itself, claims decided one by one. Both must let the same bytes pass, count the same verdicts and
 * complain of the same lines.
 *
 * The first byte says in which pieces the rest comes: so lines are cut at every place
 * where a block may end. A line that is one object comes before all, so that it is lines.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "cli/filter/claims.h"
#include "cli/filter/filter.h"
#include "codec/json.h"
#include "gate/recipe/presets.h"

#define TEXT_MAX 4096u
#define PIECES_MAX 200u /* of the smaller ones; a pipe holds as many, and the rest */
#define PIPE_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[DIGEST_KEY_LEN] = { 1 };
#define FIRST_LINE "{\"id\":\"the first\"}\n"

struct side {
	struct filter_stats stats;
	uint64_t complaints; /* hash of the lines of bad events */
	struct buf out;
};

static const struct recipe *compile_auto(void)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	struct recipe_spec spec = {
		.source = SPAN("fuzz"),
		.window_s = 60,
		.cases = preset->cases,
		.case_count = preset->case_count,
	};
	struct recipe *recipe = NULL;
	CHECK(recipe_compile(&spec, key, &recipe, NULL) == 0);
	return recipe;
}

static void note_bad(struct side *side, uint64_t line)
{
	side->complaints = hash_checksum64(&line, sizeof(line), side->complaints);
}

/* ---- the filter ---- */

/* "-:LINE: …" */
static void complain(void *user, const char *text)
{
	CHECK(strncmp(text, "-:", 2) == 0);
	note_bad(user, strtoull(text + 2, NULL, 10));
}

/* Every write to it is a read of its own. */
static int open_pieces(struct span text, size_t chunk)
{
	int fds[2];
	CHECK(pipe2(fds, O_DIRECT | O_NONBLOCK) == 0);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
	for (unsigned i = 0; text.len > 0; i++) {
		size_t len = i < PIECES_MAX ? chunk : TEXT_MAX;
		len = len < text.len ? len : text.len;
		CHECK(write(fds[1], text.ptr, len) == (ssize_t)len);
		text = span_skip(text, len);
	}
	close(fds[1]);
	return fds[0];
}

static void read_out(int fd, struct buf *out)
{
	off_t len = lseek(fd, 0, SEEK_END);
	CHECK(len >= 0 && buf_reserve(out, (size_t)len + 1) == 0);
	CHECK(pread(fd, out->ptr, (size_t)len, 0) == len);
	out->len = (size_t)len;
}

static void run_filter(const struct recipe *recipe, struct span text, size_t chunk,
                       struct side *side)
{
	struct filter_options options = {
		.recipe = recipe,
		.out_fd = memfd_create("out", MFD_CLOEXEC),
		.rejected_fd = -1,
		.complain = complain,
		.user = side,
	};
	struct filter_input input = { .fd = open_pieces(text, chunk) };
	struct filter *filter = NULL;
	struct error_text problem;
	CHECK(options.out_fd >= 0);
	CHECK(filter_new(&options, &filter) == 0);
	CHECK(filter_run(filter, &input, &problem) == 0);
	side->stats = filter_get_stats(filter);
	filter_free(filter);
	read_out(options.out_fd, &side->out);
	close(options.out_fd);
	close(input.fd);
}

/* ---- what it should do ---- */

struct reference {
	struct recipe_items items; /* large */
	struct recipe_scratch scratch;
	const struct recipe *recipe;
	struct filter_claims *claims;
	struct side *side;
	uint64_t now_ms;
	uint64_t line;
};

static void begin_items(struct reference *it, const struct recipe_input *input)
{
	recipe_items_begin(&it->items, it->recipe, &it->scratch, input);
	it->items.items_max = UINT32_MAX;
}

static void add_bad(struct reference *it)
{
	it->side->stats.read++;
	it->side->stats.bad++;
	note_bad(it->side, it->line);
}

/* An array passes nothing if it turns out to be none. */
static bool is_whole(struct reference *it, const struct recipe_input *input)
{
	struct recipe_result result;
	struct error_text problem;
	enum recipe_step step = RECIPE_END;
	if (input->body.ptr[0] != '[')
		return true;
	begin_items(it, input);
	do
		step = recipe_items_next(&it->items, &result, &problem);
	while (step == RECIPE_EVENT || step == RECIPE_REFUSED);
	return step == RECIPE_END;
}

static void pass(struct side *side, struct span bytes)
{
	side->stats.passed++;
	buf_append_span(&side->out, bytes);
	if (bytes.ptr[bytes.len - 1] != '\n')
		buf_append_char(&side->out, '\n');
}

static void decide(struct reference *it, const struct recipe_result *result, struct span whole)
{
	struct filter_verdict verdict;
	struct filter_stats *stats = &it->side->stats;
	uint64_t ms;
	if (result->event.time.coding != EVENT_TEXT_NONE &&
	    event_time_ms(result->event.time, &ms) == 0)
		it->now_ms = ms;
	else
		stats->undated++;
	struct filter_event event = {
		.claims = result->claims,
		.claim_count = result->claim_count,
		.time_ms = it->now_ms,
		.number = ++stats->read,
	};
	CHECK(filter_claims_decide(it->claims, &event, &verdict) == 0);
	stats->verdicts[verdict.verdict]++;
	if (verdict.passes)
		pass(it->side, whole);
}

static void take_line(struct reference *it, struct span line)
{
	struct recipe_input input = { .body = json_trim(line) };
	struct recipe_result result;
	struct error_text problem;
	it->line++;
	if (input.body.len == 0)
		return;
	if (!is_whole(it, &input)) {
		add_bad(it);
		return;
	}
	begin_items(it, &input);
	for (;;) {
		switch (recipe_items_next(&it->items, &result, &problem)) {
		case RECIPE_END: return;
		case RECIPE_EVENT:
			decide(it, &result, it->items.batch ? result.payload : line);
			break;
		case RECIPE_REFUSED: add_bad(it); break;
		case RECIPE_BROKEN: add_bad(it); return;
		}
	}
}

static void run_reference(const struct recipe *recipe, struct span text, struct side *side)
{
	static struct reference it;
	it = (struct reference){ .recipe = recipe, .side = side };
	CHECK(filter_claims_new(&it.claims) == 0);
	while (text.len > 0) {
		const char *end = memchr(text.ptr, '\n', text.len);
		size_t len = end ? (size_t)(end - text.ptr) + 1 : text.len;
		take_line(&it, span_of(text.ptr, len));
		text = span_skip(text, len);
	}
	side->stats.claims = filter_claims_get_stats(it.claims).claims;
	filter_claims_free(it.claims);
	recipe_scratch_free(&it.scratch);
}

static void compare(const struct side *found, const struct side *expected)
{
	CHECK(found->stats.read == expected->stats.read);
	CHECK(found->stats.bad == expected->stats.bad);
	CHECK(found->stats.passed == expected->stats.passed);
	CHECK(found->stats.undated == expected->stats.undated);
	CHECK(found->stats.claims == expected->stats.claims);
	for (int i = 0; i < VERDICT_COUNT; i++)
		CHECK(found->stats.verdicts[i] == expected->stats.verdicts[i]);
	CHECK(found->complaints == expected->complaints);
	CHECK(span_eq(buf_span(&found->out), buf_span(&expected->out)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct recipe *recipe;
	struct buf text = { 0 };
	struct side found = { .complaints = 0 };
	struct side expected = { .complaints = 0 };
	if (size == 0 || size > TEXT_MAX)
		return 0;
	if (!recipe)
		recipe = compile_auto();
	buf_append_span(&text, SPAN(FIRST_LINE));
	buf_append(&text, data + 1, size - 1);
	CHECK(!text.failed);
	run_filter(recipe, buf_span(&text), 1u + data[0] % 64, &found);
	run_reference(recipe, buf_span(&text), &expected);
	compare(&found, &expected);
	buf_free(&text);
	buf_free(&found.out);
	buf_free(&expected.out);
	return 0;
}
