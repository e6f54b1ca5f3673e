/* filter_summary: what a filter tells people. See filter_command.h. */
#include <stdio.h>

#include "cli/filter/filter_command.h"

static double seconds_of(const struct filter_summary *summary)
{
	double seconds = (double)summary->ns / 1e9;
	return seconds > 1e-6 ? seconds : 1e-6;
}

/* "5.24 GB", "17 B" */
static void put_bytes(struct buf *out, double bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	size_t unit = 0;
	for (; bytes >= 1000 && unit + 1 < ARRAY_LEN(units); unit++)
		bytes /= 1000;
	buf_printf(out, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

/* "12,345,678": long counts are read by people. */
static void put_count(struct buf *out, uint64_t value)
{
	char text[32];
	size_t at = sizeof(text);
	for (unsigned digits = 0; digits == 0 || value > 0; digits++, value /= 10) {
		if (digits > 0 && digits % 3 == 0)
			text[--at] = ',';
		text[--at] = (char)('0' + value % 10);
	}
	buf_append(out, text + at, sizeof(text) - at);
}

static void put_row(struct buf *out, const char *name, uint64_t count, uint64_t of)
{
	char memory[32];
	struct buf text = buf_on(memory, sizeof(memory));
	put_count(&text, count);
	buf_printf(out, "%-10s %15.*s", name, (int)text.len, text.ptr);
	if (count > 0 && of > 0)
		buf_printf(out, "  %5.1f %%", 100.0 * (double)count / (double)of);
	buf_append_char(out, '\n');
}

void filter_write_text(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	double seconds = seconds_of(summary);
	put_row(out, "read", stats->read, 0);
	for (int i = VERDICT_NEW; i <= VERDICT_CONFLICT; i++)
		put_row(out, verdict_name((enum verdict)i), stats->verdicts[i], stats->read);
	put_row(out, "bad", stats->bad, stats->read);
	if (stats->would > 0)
		put_row(out, "shadow", stats->would, stats->read);
	put_bytes(out, (double)stats->bytes);
	buf_printf(out, " in %.1f s, ", seconds);
	put_bytes(out, (double)stats->bytes / seconds);
	buf_append_span(out, SPAN("/s; "));
	put_count(out, stats->claims);
	buf_append_span(out, SPAN(" claims in "));
	put_bytes(out, (double)stats->claims_bytes);
	buf_append_span(out, SPAN(" of memory\n"));
	if (stats->undated > 0) {
		put_count(out, stats->undated);
		buf_append_span(out, SPAN(" events have no time of their own\n"));
	}
}

static void put_member(struct buf *out, const char *name, uint64_t value)
{
	buf_append_char(out, out->len > 0 ? ',' : '{');
	buf_printf(out, "\"%s\":", name);
	buf_append_u64(out, value);
}

void filter_write_json(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	put_member(out, "read", stats->read);
	put_member(out, "passed", stats->passed);
	for (int i = VERDICT_NEW; i <= VERDICT_CONFLICT; i++)
		put_member(out, verdict_name((enum verdict)i), stats->verdicts[i]);
	put_member(out, "bad", stats->bad);
	put_member(out, "shadow", stats->would);
	put_member(out, "undated", stats->undated);
	put_member(out, "bytes", stats->bytes);
	put_member(out, "milliseconds", summary->ns / 1000000);
	put_member(out, "claims", stats->claims);
	put_member(out, "claims_forgotten", stats->claims_forgotten);
	put_member(out, "claims_bytes", stats->claims_bytes);
	buf_append_span(out, SPAN("}\n"));
}

void filter_write_progress(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	put_bytes(out, (double)stats->bytes);
	buf_append_span(out, SPAN("  "));
	put_count(out, (uint64_t)((double)stats->read / seconds_of(summary)));
	buf_append_span(out, SPAN(" events/s  new "));
	put_count(out, stats->verdicts[VERDICT_NEW]);
	buf_append_span(out, SPAN("  duplicate "));
	put_count(out, stats->verdicts[VERDICT_DUPLICATE]);
	if (stats->bad > 0) {
		buf_append_span(out, SPAN("  bad "));
		put_count(out, stats->bad);
	}
}
