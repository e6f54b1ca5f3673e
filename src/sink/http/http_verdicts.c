/*
 * http_verdicts: another stile's answer, which has a verdict for each event. See
 * http_internal.h, and http_outlet.h for what they mean.
 *
 *   {"new":1,…,"events":[{"verdict":"new","ticket":"…"},{"error":"…","status":400}]}
 *   {"verdict":"duplicate","ticket":"…"}    to an event that went alone
 */
#include "base/mem.h"
#include "base/text.h"
#include "codec/json.h"
#include "sink/http/http_internal.h"

enum member { VERDICT = 0, ERROR, STATUS, OUTCOME, PASSED_AS, MEMBERS };

/* What is read of an answer and of an item of it. */
struct reader {
	struct json_plan answer, item;
	uint8_t events;
	uint8_t members[MEMBERS];
	struct json_doc doc;
};

static void add_path(struct json_plan *plan, const char *name, uint8_t *ret_node)
{
	struct json_path path;
	struct json_problem problem;
	CHECK(json_path_parse(span_str(name), &path, &problem) == 0);
	CHECK(json_plan_add(plan, &path, ret_node) == 0);
}

static void init_reader(struct reader *reader)
{
	static const char *const names[MEMBERS] = { "verdict", "error", "status", "outcome",
		                                    "passed_as" };
	json_plan_init(&reader->answer);
	json_plan_init(&reader->item);
	add_path(&reader->answer, "events", &reader->events);
	for (size_t i = 0; i < MEMBERS; i++)
		add_path(&reader->item, names[i], &reader->members[i]);
	json_plan_seal(&reader->answer);
	json_plan_seal(&reader->item);
}

static struct span text_of(const struct reader *reader, enum member member)
{
	struct json_value value = json_get(&reader->doc, reader->members[member]);
	return value.type == JSON_NONE ? SPAN_EMPTY : value.text;
}

static void refuse(struct outlet_result *result, uint16_t status, bool permanent)
{
	result->answer = OUTLET_REFUSED;
	result->status = status;
	result->permanent = permanent;
}

static void judge_outcome(struct span outcome, struct outlet_result *result)
{
	result->answer = OUTLET_DONE;
	result->status = 200;
	if (span_eq(outcome, SPAN("dead")))
		refuse(result, 502, false);
	else if (span_eq(outcome, SPAN("unknown")))
		refuse(result, 504, false);
}

/* It is on its disk, or need not be: also what is decided later. */
static bool is_kept(struct span verdict)
{
	return span_eq(verdict, SPAN("new")) || span_eq(verdict, SPAN("duplicate")) ||
	       span_eq(verdict, SPAN("stale")) || span_eq(verdict, SPAN("spooled"));
}

/* The item that the reader has scanned. False: it is none. */
static bool judge_item(const struct reader *reader, struct outlet_result *result)
{
	struct span verdict = text_of(reader, VERDICT);
	uint64_t status = 0;
	if (text_of(reader, ERROR).len > 0) {
		bool known = text_parse_u64(text_of(reader, STATUS), &status) == 0 &&
		             status >= 400 && status < 600;
		refuse(result, known ? (uint16_t)status : 400, false);
	} else if (is_kept(verdict)) {
		judge_outcome(text_of(reader, OUTCOME), result);
	} else if (span_eq(verdict, SPAN("conflict"))) {
		judge_outcome(text_of(reader, OUTCOME), result);
		if (text_of(reader, PASSED_AS).len == 0)
			refuse(result, 422, true);
	} else if (span_eq(verdict, SPAN("busy"))) {
		refuse(result, 503, false);
	} else {
		return false;
	}
	return true;
}

static bool read_single(const struct http_transfer *transfer, struct reader *reader)
{
	struct outlet_attempt *attempt = transfer->chain;
	struct outlet_result result = { .retry_after_ms = transfer->call.retry_after_ms };
	struct span answer = buf_span(&transfer->call.whole);
	if (json_scan(answer, &reader->item, &reader->doc) != 0 || !judge_item(reader, &result))
		return false;
	http_result_text(transfer->outlet->plan, answer, &result);
	attempt->result = result;
	return true;
}

/* Each event's item, in their order; as many as there are events. */
static bool read_items(const struct http_transfer *transfer, struct reader *reader)
{
	struct json_elements elements;
	struct outlet_attempt *attempt = transfer->chain;
	struct span item;
	if (json_scan(buf_span(&transfer->call.whole), &reader->answer, &reader->doc) != 0)
		return false;
	struct json_value events = json_get(&reader->doc, reader->events);
	if (events.type != JSON_ARRAY || json_elements_begin(&elements, events.text) != 0)
		return false;
	int found = json_elements_next(&elements, &reader->item, &reader->doc, &item);
	while (found == 1 && attempt) {
		attempt->result =
			(struct outlet_result){ .retry_after_ms = transfer->call.retry_after_ms };
		if (!judge_item(reader, &attempt->result))
			return false;
		http_result_text(transfer->outlet->plan, item, &attempt->result);
		attempt = attempt->next;
		found = json_elements_next(&elements, &reader->item, &reader->doc, &item);
	}
	return found == 0 && !attempt;
}

bool http_verdicts_read(const struct http_transfer *transfer, struct outlet_result *result)
{
	if (!transfer->call.answered)
		return false;
	struct reader *reader = mem_alloc(sizeof(*reader));
	bool read = false;
	if (reader && !transfer->call.whole.failed) {
		init_reader(reader);
		read = transfer->batch ? read_items(transfer, reader)
		                       : read_single(transfer, reader);
	}
	mem_free(reader);
	if (!read && result->answer == OUTLET_DONE) {
		result->answer = OUTLET_UNKNOWN;
		outlet_result_text(result, SPAN("the answer has no verdict for each event"));
	}
	return read;
}
